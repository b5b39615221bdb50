"""One byte stream that many conversations share, as a serial line is: both ends, no I/O.

Each `id` is a conversation: what a connection of its own is elsewhere. Its lines are those of a connection with the
`id` put in, so `HostEnd` and `GuestEnd` serve it unchanged, and it has its own references, files and command.

A host does this, with `read` and `write` on the device:

    shared = SharedHost(secrets.token_hex(16))
    write(shared.sync())                    # and again every second until shared.synced
    number, end = shared.open(), HostEnd()
    write(shared.say(number, end.ask(Ping())))
    shared.feed(read())
    while (heard := shared.next()) is not None:
        number, line = heard                # find that number's HostEnd and feed it; b"" is the end of its connection
    write(shared.leave(number))             # as closing a connection: a running command is killed

Nobody can stop reading for the sake of one conversation. So `exec` needs a `window` here, and the host sends
`Credit` for what it has consumed; of its input it sends no more than the window until the guest's `Credit` comes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Dict, Optional, Set, Tuple, Union

from reflexarc_wire.errors import LOST_BEFORE_EXIT, Id, WireError
from reflexarc_wire.framing import FROM_GUEST, FROM_HOST, Limits, read_line, write_line
from reflexarc_wire.guest import read_id

# No byte of UTF-8, so it marks a beginning in the midst of anything.
_MARK = b"\xff"
_SYNC = "sync"
_END = "end"
_TAGGED = re.compile(rb'\{"id":(0|[1-9][0-9]{0,17}),')
_TAG_ROOM = 1024
_MAX_NONCE = 128


class MarkedLines:
    """Cuts a stream into lines; a mark drops all that came before it, and a line above the limit is dropped whole."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0
        self._dropping = False
        self._marked = False

    def feed(self, data: bytes) -> None:
        _, mark, after = data.rpartition(_MARK)
        if mark:
            self._buffer.clear()
            self._searched, self._dropping, self._marked = 0, False, True
        if self._dropping:
            _, newline, after = after.partition(b"\n")
            self._dropping = not newline
        self._buffer += after

    def next(self) -> Optional[Tuple[bytes, bool]]:
        """Return the next whole line without its newline, and whether a mark stands before it; None until fed more.

        Raises WireError on a line above the limit, once; the stream goes on behind it.
        """
        end = self._buffer.find(b"\n", self._searched)
        self._searched = len(self._buffer) if end < 0 else 0
        if (len(self._buffer) if end < 0 else end) > self._limit:
            self._dropping = end < 0
            self._take(len(self._buffer) if end < 0 else end + 1)
            self._searched = 0
            raise WireError(f"a line of more than {self._limit} bytes")
        if end < 0:
            return None
        return self._take(end + 1)[:-1], self._unmark()

    def _take(self, size: int) -> bytes:
        with memoryview(self._buffer) as view:
            taken = bytes(view[:size])
        del self._buffer[:size]
        return taken

    def _unmark(self) -> bool:
        marked, self._marked = self._marked, False
        return marked


@dataclass(frozen=True)
class Began:
    """A host is there, another unless `nonce` is as before: all conversations of an earlier one are to be ended."""

    nonce: str


@dataclass(frozen=True)
class Said:
    """A line of a conversation, with its newline and without its id; an unknown id begins one."""

    id: Id
    line: bytes


@dataclass(frozen=True)
class Left:
    """The host has left that conversation."""

    id: Id


@dataclass(frozen=True)
class Astray:
    """A line that belongs to no conversation."""

    error: WireError


class SharedGuest:
    """The guest's end: `next` takes the stream apart, `say` and the other writers make what is sent."""

    def __init__(self) -> None:
        self._lines = MarkedLines(FROM_HOST.line + _TAG_ROOM)
        self.synced = False

    def feed(self, data: bytes) -> None:
        self._lines.feed(data)

    def lose(self) -> None:
        """Say that the host is gone; until one syncs, all it sends is astray."""
        self.synced = False

    def next(self) -> Union[Began, Said, Left, Astray, None]:
        """Return what came next, or None until more is fed; what is astray is answered with `refusal`."""
        try:
            cut = self._lines.next()
            return None if cut is None else self._read(*cut)
        except WireError as error:
            return Astray(error)

    def _read(self, line: bytes, marked: bool) -> Union[Began, Said, Left]:
        if marked or not self.synced:
            nonce = _nonce(line, FROM_HOST, ("op", _SYNC)) if marked else None
            if nonce is None:
                raise WireError("a shared stream begins with a byte 0xFF and a sync")
            self.synced = True
            return Began(nonce)
        number, rest = _untag(line, FROM_HOST)
        return Left(number) if _is_end(rest, FROM_HOST) else Said(number, rest)

    def begun(self, began: Began) -> bytes:
        """Answer a sync; nothing of an earlier host may follow it."""
        return _MARK + write_line({"ok": True, "nonce": began.nonce})

    def restarted(self) -> bytes:
        """Tell a host that may be there that this end remembers nothing; it is to sync."""
        return _MARK + write_line({"event": _SYNC})

    def refusal(self, astray: Astray) -> bytes:
        if not self.synced:
            return self.restarted()
        return write_line({"ok": False, "error": str(astray.error), "code": astray.error.code})

    def prefix(self, id: Id) -> bytes:  # noqa: A002
        """Return what a line of that conversation begins with, in place of its opening brace."""
        return b'{"id":' + json.dumps(id).encode() + b","

    def end(self, id: Id) -> bytes:  # noqa: A002
        """Write that the conversation is over, as the end of a connection."""
        return write_line({"id": id, "t": _END})


class SharedHost:
    """The host's end; `nonce` is its own, told to nobody before: `secrets.token_hex(16)`."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._lines = MarkedLines(FROM_GUEST.line + _TAG_ROOM)
        self._count = 0
        self._open: Set[int] = set()
        self.synced = False

    def sync(self) -> bytes:
        """Return what is sent first, and again every second until `synced`."""
        return _MARK + write_line({"op": _SYNC, "nonce": self._nonce})

    def open(self) -> int:
        """Begin a conversation and return its number, which is never used again; it takes `synced`."""
        self._count += 1
        self._open.add(self._count)
        return self._count

    def say(self, number: int, lines: bytes) -> bytes:
        """Put the conversation's number into what its `HostEnd` says, which asks without ids of its own.

        A conversation that is over says nothing.
        """
        if number not in self._open:
            return b""
        return b"".join(b'{"id":%d,%b' % (number, line[1:]) for line in lines.splitlines(keepends=True))

    def leave(self, number: int) -> bytes:
        """Return what ends a conversation, nothing where it is over; what still comes for it is dropped."""
        if number not in self._open:
            return b""
        self._open.remove(number)
        return write_line({"id": number, "t": _END})

    def feed(self, data: bytes) -> None:
        self._lines.feed(data)

    def next(self) -> Optional[Tuple[int, bytes]]:
        """Return a conversation's number and its next line, b"" where the guest has ended it; None until fed more.

        Raises WireError where the stream is to be left and begun anew with another SharedHost: what no guest may
        send, or, code "lost_before_exit", an agent that was started anew.
        """
        while (cut := self._lines.next()) is not None:
            found = self._read(*cut)
            if found is not None:
                return found
        return None

    def _read(self, line: bytes, marked: bool) -> Optional[Tuple[int, bytes]]:
        if marked:
            self._hear_mark(line)
            return None
        if not self.synced or b'"id"' not in line:
            return None
        number, rest = _untag(line, FROM_GUEST)
        if not isinstance(number, int) or number not in self._open:
            return None
        if _is_end(rest, FROM_GUEST):
            self._open.remove(number)
            rest = b""
        return number, rest

    def _hear_mark(self, line: bytes) -> None:
        # A line that echoes gives back the host's own sync, which is no answer.
        if _nonce(line, FROM_GUEST, ("ok", True)) == self._nonce:
            self.synced = True
        elif self.synced:
            raise WireError("the agent was started anew: begin the stream anew", code=LOST_BEFORE_EXIT)


def _nonce(line: bytes, limits: Limits, told: Tuple[str, object]) -> Optional[str]:
    """The nonce of a marked line that has this field, as a sync or its answer has; None for any other line."""
    if len(line) > _TAG_ROOM:
        return None
    try:
        values = read_line(line, limits)
    except WireError:
        return None
    nonce = values.get("nonce") if values.get(told[0]) == told[1] else None
    return nonce if isinstance(nonce, str) and 0 < len(nonce) <= _MAX_NONCE else None


def _untag(line: bytes, limits: Limits) -> Tuple[Id, bytes]:
    """Take the id out of a line; the form we write ourselves is cut without being read."""
    found = _TAGGED.match(line)
    if found is not None:
        return int(found[1]), b"{" + line[found.end() :] + b"\n"
    values: Dict[str, object] = read_line(line, limits)
    number = read_id(values.pop("id", None))
    if number is None:
        raise WireError("a line on a shared stream needs an `id`")
    return number, write_line(values)


def _is_end(line: bytes, limits: Limits) -> bool:
    if len(line) > _TAG_ROOM or b'"end"' not in line:
        return False
    try:
        return read_line(line[:-1], limits).get("t") == _END
    except WireError:
        return False
