"""What can go wrong with an X server."""

from __future__ import annotations


class X11Error(Exception):
    """The X server, or a library of it, isn't there or refused something."""


class NotTypeableError(X11Error):
    """A character or a key that no keyboard of this server can send."""
