"""What can go wrong with a display server, whichever it is; `code` is the wire's."""

from __future__ import annotations

from reflexarc_wire.errors import BAD_REQUEST, OS_ERROR, UNSUPPORTED


class DisplayError(Exception):
    """The display server isn't there, or refused something."""

    code = OS_ERROR


class NotTypeableError(DisplayError):
    """A character or a key that no keyboard of this display server can send."""

    code = BAD_REQUEST


class NotOfferedError(DisplayError):
    """This display server has no way to do that."""

    code = UNSUPPORTED
