"""What an operation on the tree can answer instead of a result; `code` is the wire's."""

from __future__ import annotations


class AtSpiError(Exception):
    """The root of all errors of this backend."""

    code = "os_error"


class StaleRefError(AtSpiError):
    """The reference's element is gone, or isn't the one that was read."""

    code = "stale_ref"


class UnsupportedError(AtSpiError):
    """The element, or this desktop, doesn't offer that."""

    code = "unsupported"


class TimedOutError(AtSpiError):
    """The application didn't answer, or what was waited for didn't come."""

    code = "timeout"


class UnavailableError(AtSpiError):
    """There is no accessibility bus to talk to."""

    code = "not_authorized"
