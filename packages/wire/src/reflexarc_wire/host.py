"""The host's end of a connection: requests and frames to bytes, bytes from a guest to replies, frames and events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Optional, Tuple, Type, Union

from reflexarc_wire.codec import from_object, to_object
from reflexarc_wire.errors import LOST_BEFORE_EXIT, Id, WireError
from reflexarc_wire.frames import (
    GUEST_FRAMES,
    Exit,
    FromGuest,
    FromHost,
    NotStarted,
    Stderr,
    Stdout,
    read_data,
    read_frame,
    read_raw_header,
    write_frame,
)
from reflexarc_wire.framing import FROM_GUEST, FROM_HOST, LineReader, read_line, write_line
from reflexarc_wire.replies import Failure
from reflexarc_wire.requests import Exec, Request
from reflexarc_wire.values import EVENTS, Event


@dataclass(frozen=True)
class Answer:
    """The reply to a request: of the class its `reply` names, or a Failure."""

    request: Request
    reply: object
    id: Id = None


@dataclass(frozen=True)
class _Pending:
    request: Request
    id: Id


FromGuestEnd = Union[Answer, FromGuest, Event]


class HostEnd:
    """Pairs what a guest sends with what was asked: by `id` where it echoes it, else in order."""

    def __init__(self) -> None:
        self._lines = LineReader(FROM_GUEST)
        self._pending: Deque[_Pending] = deque()
        self._running: Optional[Exec] = None
        self._exited = False
        self._body: Optional[Tuple[Union[Type[Stdout], Type[Stderr]], int]] = None

    def ask(self, request: Request, id: Id = None) -> bytes:  # noqa: A002
        """Return the bytes of a request; raises WireError where the connection runs a command or it is too long."""
        if self._running or self._exited:
            raise WireError("this connection belongs to a command: open another one")
        line = _bounded(
            write_line({**({} if id is None else {"id": id}), "op": request.op, **to_object(request)})
        )
        if isinstance(request, Exec):
            self._running = request
        else:
            self._pending.append(_Pending(request, id))
        return line

    def send(self, frame: FromHost) -> bytes:
        """Return the bytes of a frame for the running command; raises WireError where none runs."""
        if self._running is None:
            raise WireError("no command runs on this connection")
        return _bounded(write_frame(frame))

    def feed(self, data: bytes) -> None:
        """Take bytes in; ask `next` until it has no more before feeding again, so that little is held."""
        self._lines.feed(data)

    def next(self) -> Optional[FromGuestEnd]:
        """Return what came next, or None until more is fed; events and frames of an unknown sort are passed over.

        Raises WireError on what no guest may send: the connection is to be closed.
        """
        while True:
            if self._body is not None:
                return self._some_of(*self._body)
            line = self._lines.next()
            if line is None:
                return None
            found = self._message(line)
            if found is not None:
                return found

    def _message(self, line: bytes) -> Optional[FromGuestEnd]:
        if self._running is None:
            return self._read(read_line(line, FROM_GUEST))
        if self._running.raw and (body := read_raw_header(line)) is not None:
            self._body = body if body[1] else None
            return self._some_of(*body)
        return read_data(line, GUEST_FRAMES) or self._read(read_line(line, FROM_GUEST))

    def _some_of(self, kind: Union[Type[Stdout], Type[Stderr]], left: int) -> Optional[FromGuest]:
        """Hand out what is there of an output that travels as bytes; to wait for all of it would only cost memory."""
        data = self._lines.take(left)
        self._body = (kind, left - len(data)) if left > len(data) else None
        return kind(data) if data else None

    def end(self) -> List[Request]:
        """Say that the guest is gone, and return the requests it hasn't answered: they may have been carried out.

        Raises WireError, code "lost_before_exit", where a command was running.
        """
        if self._running is not None:
            raise WireError("the connection was lost before the command's exit", code=LOST_BEFORE_EXIT)
        return [pending.request for pending in self._pending]

    def _read(self, values: Dict[str, object]) -> Optional[FromGuestEnd]:
        if "event" in values:
            kind = EVENTS.get(str(values["event"]))
            return None if kind is None else from_object(kind, values)
        if "t" in values:
            return self._frame(values)
        return self._answer(values)

    def _frame(self, values: Dict[str, object]) -> Optional[FromGuest]:
        frame = read_frame(values, GUEST_FRAMES)
        if self._running is None:
            raise WireError("a frame came, but no command runs")
        if isinstance(frame, (Exit, NotStarted)):
            self._running, self._exited = None, True
        return frame

    def _answer(self, values: Dict[str, object]) -> Union[Answer, NotStarted, None]:
        ok = values.get("ok")
        if not isinstance(ok, bool):
            raise WireError("a reply needs `ok`, true or false")
        if self._running is not None and not ok and not self._pending:
            # A connection that is one too many is told so before its request is read.
            failure = from_object(Failure, values)
            self._running, self._exited = None, True
            return NotStarted(failure.error, failure.code)
        pending = self._take(values.get("id"))
        if pending is None:
            return None
        kind = pending.request.reply if ok else Failure
        return Answer(pending.request, from_object(kind, values), pending.id)

    def _take(self, answered: object) -> Optional[_Pending]:
        """Find what a reply answers; None where it is a stranger's, whose host has left a shared stream."""
        if answered is None:
            if not self._pending:
                raise WireError("a reply came that nothing asked for")
            return self._pending.popleft()
        for pending in self._pending:
            if pending.id == answered:
                self._pending.remove(pending)
                return pending
        return None


def _bounded(line: bytes) -> bytes:
    if len(line) > FROM_HOST.line:
        raise WireError(
            f"a message of {len(line)} bytes; an agent takes at most {FROM_HOST.line}: send it in parts"
        )
    return line
