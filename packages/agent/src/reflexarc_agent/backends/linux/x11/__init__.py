"""X11 through its own client libraries: pixels, changes, pointer, keys."""
