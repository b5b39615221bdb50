"""A running command on a connection of its own: one loop over its pipes, its exit and the host."""

from __future__ import annotations

import os
import select
import signal
import time
from functools import partial
from typing import Callable, Dict, List, Optional, Tuple, Union

from reflexarc_agent.channel import PEER_CLOSED, Channel, HostGoneError
from reflexarc_agent.child import Child
from reflexarc_wire import Asked, GuestEnd, Malformed, WireError
from reflexarc_wire.frames import (
    Credit,
    EndOfInput,
    Exit,
    FromHost,
    NotStarted,
    Resize,
    Signal,
    Stdin,
    raw_header,
    write_frame,
)
from reflexarc_wire.requests import Exec

# After the exit, for what other processes that hold the output still write.
DRAIN_GRACE = 0.25
# Between SIGTERM and SIGKILL when a command's time is over.
KILL_GRACE = 5.0
_CHUNK = 1 << 17
_OUTBOX = 1 << 18
_STDIN_BACKLOG = 1 << 18
_END_OF_FILE = b"\x04"
_FAILED = select.POLLHUP | select.POLLERR | select.POLLNVAL

_Interest = Tuple[int, int, Callable[[], None]]


class Execution:
    """Relays between a command and its host until the exit is told or the host is gone, which kills the group.

    Nothing here blocks: a host that doesn't read stops the command's output, a command that doesn't read stops
    the host's input, and neither hides an exit, a signal or the host's end from the other.
    """

    def __init__(self, request: Exec, child: Child, channel: Channel, end: GuestEnd) -> None:
        self._child = child
        self._channel = channel
        self._end = end
        self._outbox = bytearray()
        self._stdin = bytearray()
        self._stdin_ended = False
        self._raw = bool(request.raw) and not channel.shared
        self._window = request.window
        self._credit = request.window
        self._deadline = time.monotonic() + request.timeout if request.timeout else None
        self._timed_out = False
        self._owed = 0
        self._unread: Optional[Dict[int, int]] = None
        self._grace_end = 0.0
        self._told = False

    def run(self) -> None:
        """Relay to the end; raises HostGoneError where the host is gone."""
        try:
            self._take_frames()
            while not self._told or self._outbox or self._channel.pending:
                self._turn()
        finally:
            self._child.end()

    def _turn(self) -> None:
        self._give_credit()
        interests = self._interests()
        masks: Dict[int, int] = {}
        for fd, events, _ in interests:
            masks[fd] = masks.get(fd, 0) | events
        poll = select.poll()
        for fd, mask in masks.items():
            poll.register(fd, mask)
        ready = dict(poll.poll(self._patience()))
        for fd, events, act in interests:
            if ready.get(fd, 0) & (events | _FAILED):
                act()
        self._check_time()
        if self._unread is not None and not self._told and self._drained():
            self._tell_exit()

    def _interests(self) -> List[_Interest]:
        wanted: List[_Interest] = [self._host_interest()]
        if self._outbox or self._channel.pending:
            wanted.append((self._channel.write_fd, select.POLLOUT, self._flush))
        if self._told:
            return wanted
        if len(self._outbox) < _OUTBOX and self._credit != 0:
            wanted += [(fd, select.POLLIN, partial(self._relay, fd)) for fd in self._child.outputs]
        if self._child.stdin is not None and self._stdin:
            wanted.append((self._child.stdin, select.POLLOUT, self._write_stdin))
        if self._unread is None:
            wanted.append((self._child.exited_fd, select.POLLIN, self._note_exit))
        return wanted

    def _host_interest(self) -> _Interest:
        if len(self._stdin) < _STDIN_BACKLOG:
            return self._channel.read_fd, select.POLLIN, self._hear
        return self._channel.read_fd, PEER_CLOSED, self._lose_host

    def _patience(self) -> Optional[float]:
        """Milliseconds until the clock alone changes something."""
        if self._unread is None:
            ends = self._deadline
        else:
            ends = self._grace_end if not self._told and time.monotonic() < self._grace_end else None
        return None if ends is None else max(0.0, ends - time.monotonic()) * 1000 + 1

    def _hear(self) -> None:
        data = self._channel.receive()
        if data is not None and not self._told:
            self._end.feed(data)
            self._take_frames()

    def _lose_host(self) -> None:
        raise HostGoneError

    def _take_frames(self) -> None:
        try:
            while (frame := self._end.next()) is not None:
                if not isinstance(frame, (Asked, Malformed)):
                    self._take(frame)
        except WireError as error:
            self._child.signal(signal.SIGKILL)
            self._tell(NotStarted(str(error), error.code))

    def _take(self, frame: FromHost) -> None:
        if isinstance(frame, Stdin):
            self._stdin += b"" if self._stdin_ended else frame.d
            self._write_stdin()
        elif isinstance(frame, EndOfInput):
            self._end_stdin()
        elif isinstance(frame, Signal):
            self._child.signal(frame.n)
        elif isinstance(frame, Resize):
            self._child.resize(frame)
        elif isinstance(frame, Credit) and self._credit is not None:
            self._credit += frame.n

    def _end_stdin(self) -> None:
        if self._child.has_terminal:
            self._stdin += _END_OF_FILE
        else:
            self._stdin_ended = True
        self._write_stdin()

    def _write_stdin(self) -> None:
        """Pass on what the command takes now; what it closed its input to is dropped."""
        if self._stdin:
            written = self._write_some()
            del self._stdin[:written]
            self._owed += written
        if self._stdin_ended and not self._stdin:
            self._child.close_stdin()

    def _write_some(self) -> int:
        if self._child.stdin is None:
            return len(self._stdin)
        try:
            return os.write(self._child.stdin, self._stdin)
        except BlockingIOError:
            return 0
        except OSError:
            self._child.close_stdin()
            return len(self._stdin)

    def _give_credit(self) -> None:
        """Tell what the command took of its input, in one frame however slowly the host reads."""
        if self._window is not None and self._owed and not self._told and len(self._outbox) < _OUTBOX:
            self._outbox += write_frame(Credit(self._owed))
            self._owed = 0

    def _relay(self, fd: int) -> None:
        if self._credit == 0:
            return  # the other output took it
        try:
            data = os.read(fd, _CHUNK if self._credit is None else min(_CHUNK, self._credit))
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal's end is an error
        if not data:
            self._child.close_output(fd)
            return
        kind = self._child.outputs[fd]
        if self._raw:
            self._outbox += raw_header(kind, len(data))
            self._outbox += data
        else:
            self._outbox += write_frame(kind(data))
        if self._credit is not None:
            self._credit -= len(data)
        if self._unread is not None:
            self._unread[fd] -= len(data)

    def _flush(self) -> None:
        with memoryview(self._outbox) as waiting:
            sent = self._channel.send(waiting)
        del self._outbox[:sent]

    def _note_exit(self) -> None:
        self._unread = self._child.unread()
        self._grace_end = time.monotonic() + DRAIN_GRACE

    def _check_time(self) -> None:
        if self._deadline is None or self._unread is not None or time.monotonic() < self._deadline:
            return
        self._child.signal(signal.SIGKILL if self._timed_out else signal.SIGTERM)
        self._timed_out = True
        self._deadline = time.monotonic() + KILL_GRACE

    def _drained(self) -> bool:
        """All the process itself wrote is passed on, and others had their grace."""
        if not self._child.outputs:
            return True
        waiting = max(self._unread[fd] for fd in self._child.outputs) if self._unread else 0
        return waiting <= 0 and time.monotonic() >= self._grace_end

    def _tell_exit(self) -> None:
        held = bool(self._child.outputs)
        self._tell(Exit(self._child.reap(), held or None, self._timed_out or None))

    def _tell(self, last: Union[Exit, NotStarted]) -> None:
        self._outbox += write_frame(last)
        self._told = True
