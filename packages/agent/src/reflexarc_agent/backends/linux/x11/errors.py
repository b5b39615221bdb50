"""What can go wrong with an X server."""

from __future__ import annotations

from reflexarc_agent.backends.linux.errors import DisplayError
from reflexarc_wire.errors import UNSUPPORTED


class X11Error(DisplayError):
    """The X server, or a library of it, isn't there or refused something."""


class TooLargeError(X11Error):
    """A text is beyond what is passed on."""

    code = "capped"


class NoAnswerError(X11Error):
    """Another client doesn't answer."""

    code = "timeout"


class NoManagerError(X11Error):
    """That takes a window manager, and none runs or it doesn't offer it."""

    code = UNSUPPORTED
