"""The one exception of the wire, and the codes that error replies carry from version 3 on."""

from __future__ import annotations

from typing import Optional, Union

BAD_REQUEST = "bad_request"
BUSY = "busy"
LOST_BEFORE_EXIT = "lost_before_exit"
NOT_AUTHORIZED = "not_authorized"
OS_ERROR = "os_error"
UNSUPPORTED = "unsupported"

CODES = frozenset(
    {
        *(BAD_REQUEST, BUSY, LOST_BEFORE_EXIT, NOT_AUTHORIZED, OS_ERROR, UNSUPPORTED),
        *("stale_ref", "ambiguous_ref", "timeout", "capped"),
    }
)

Id = Optional[Union[str, int]]


class WireError(Exception):
    """What was received, or was about to be sent, isn't a message of the protocol; `id` is its request's."""

    def __init__(self, message: str, *, code: str = BAD_REQUEST, id: Id = None) -> None:  # noqa: A002
        super().__init__(message)
        self.code = code
        self.id = id
