"""The guest's end of a connection: bytes from a host to requests and frames, replies and frames to bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from reflexarc_wire.codec import to_object
from reflexarc_wire.errors import Id, WireError
from reflexarc_wire.frames import HOST_FRAMES, FromHost, NotStarted, read_data, read_frame, write_frame
from reflexarc_wire.framing import FROM_HOST, LineReader, read_line, write_line
from reflexarc_wire.replies import Failure
from reflexarc_wire.requests import Exec, Request, read_request
from reflexarc_wire.values import EVENTS, Event

_MAX_ID = 128


@dataclass(frozen=True)
class Asked:
    """A request, and the id that its reply must carry."""

    request: Request
    id: Id = None


@dataclass(frozen=True)
class Malformed:
    """A line that is no request; it is answered, and the connection goes on."""

    error: WireError
    id: Id = None


FromHostEnd = Union[Asked, Malformed, FromHost]


class GuestEnd:
    """Reads what a host sends. After a request for `exec`, good or bad, only frames follow."""

    def __init__(self) -> None:
        self._lines = LineReader(FROM_HOST)
        self.executing = False

    def feed(self, data: bytes) -> None:
        """Take bytes in; ask `next` until it has no more before feeding again, so that little is held."""
        self._lines.feed(data)

    def next(self) -> Optional[FromHostEnd]:
        """Return what came next, or None until more is fed; frames of an unknown sort are passed over.

        Raises WireError on a line that is too long, and on what is no frame while a command runs: the connection
        is to be closed.
        """
        while (line := self._lines.next()) is not None:
            if not self.executing:
                return self._request(line)
            frame = read_data(line, HOST_FRAMES) or read_frame(read_line(line, FROM_HOST), HOST_FRAMES)
            if frame is not None:
                return frame
        return None

    def _request(self, line: bytes) -> Union[Asked, Malformed]:
        known: Id = None
        try:
            values = read_line(line, FROM_HOST)
            self.executing = values.get("op") == Exec.op
            known = read_id(values.get("id"))
            return Asked(read_request(values), known)
        except WireError as error:
            return Malformed(error, known)


def write_reply(reply: object, id: Id = None) -> bytes:  # noqa: A002
    """Write a reply of `replies`, a Failure included, as one line."""
    envelope = {"ok": not isinstance(reply, Failure)}
    return write_line({**({} if id is None else {"id": id}), **envelope, **to_object(reply)})


def write_refusal(failure: Failure, id: Id = None, *, executing: bool) -> bytes:  # noqa: A002
    """Write that a request can't be served, in the form its sender waits for: a frame if it was for `exec`."""
    if executing:
        return write_frame(NotStarted(failure.error, failure.code), id)
    return write_reply(failure, id)


def write_event(event: Event) -> bytes:
    name = next(name for name, kind in EVENTS.items() if isinstance(event, kind))
    return write_line({"event": name, **to_object(event)})


def read_id(value: object) -> Id:
    """Check an id; raises WireError where it is none."""
    if value is None or (isinstance(value, str) and len(value) <= _MAX_ID):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise WireError(f"id must be a string of at most {_MAX_ID} characters or a whole number")
