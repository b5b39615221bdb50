"""What can go wrong with an X server."""

from __future__ import annotations


class X11Error(Exception):
    """The X server, or a library of it, isn't there or refused something."""


class NotTypeableError(X11Error):
    """A character or a key that no keyboard of this server can send."""


class TooLargeError(X11Error):
    """A text is beyond what is passed on."""


class NoAnswerError(X11Error):
    """Another client doesn't answer."""


class NoManagerError(X11Error):
    """That takes a window manager, and none runs or it doesn't offer it."""
