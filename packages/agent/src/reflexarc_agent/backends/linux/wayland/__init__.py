"""Wayland over its own socket: pixels, pointer, keys, windows and clipboard, where the compositor offers them."""
