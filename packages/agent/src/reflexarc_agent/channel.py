"""A byte stream to one host, non-blocking both ways, and how to wait for it."""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from typing import Optional, Protocol

CHUNK = 1 << 16
# Told even while nothing is read; only Linux has it.
PEER_CLOSED = getattr(select, "POLLRDHUP", 0)


class HostGoneError(Exception):
    """The host is no longer there."""


class Channel(Protocol):
    """What every transport offers; the descriptors are for polling only."""

    read_fd: int
    write_fd: int
    shared: bool
    """Whether other conversations are on the same stream, so that none of them may be kept waiting."""

    @property
    def pending(self) -> bool:
        """Whether bytes that `send` accepted still wait here; `send(b"")` moves them on."""

    def open(self, deadline: float) -> None:
        """Agree on what must be agreed before lines flow; raises HostGoneError where that fails by `deadline`."""

    def receive(self) -> Optional[bytes]:
        """Return what has come, None if nothing has; raises HostGoneError at its end."""

    def send(self, data: memoryview) -> int:
        """Accept some of the bytes and return how many; raises HostGoneError where none can go any more."""

    def finish(self) -> None:
        """Tell the host that nothing more will come, where the transport can."""

    def interrupt(self) -> None:
        """Make the thread that waits for this channel find it gone; callable from any thread."""

    def close(self) -> None: ...


class SocketChannel:
    """A connected stream socket."""

    def __init__(self, connected: socket.socket, *, shared: bool = False) -> None:
        connected.setblocking(False)
        self.shared = shared
        self._socket = connected
        self.read_fd = self.write_fd = connected.fileno()
        self.pending = False

    def open(self, deadline: float) -> None:
        pass

    def receive(self) -> Optional[bytes]:
        try:
            data = self._socket.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise HostGoneError from error
        if not data:
            raise HostGoneError
        return data

    def send(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise HostGoneError from error

    def finish(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def interrupt(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class PipeChannel:
    """A pair of descriptors, as of a program run over SSH; they are left as they were found."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self.write_fd = read_fd, write_fd
        self.pending = self.shared = False
        self._blocking = {fd: os.get_blocking(fd) for fd in (read_fd, write_fd)}
        for fd in self._blocking:
            os.set_blocking(fd, False)

    def open(self, deadline: float) -> None:
        pass

    def receive(self) -> Optional[bytes]:
        try:
            data = os.read(self.read_fd, CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            raise HostGoneError from error
        if not data:
            raise HostGoneError
        return data

    def send(self, data: memoryview) -> int:
        try:
            return os.write(self.write_fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise HostGoneError from error

    def finish(self) -> None:
        pass

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        for fd, blocking in self._blocking.items():
            with suppress(OSError):
                os.set_blocking(fd, blocking)


def receive(channel: Channel, deadline: Optional[float] = None) -> bytes:
    """Wait for bytes; raises HostGoneError at the end of the stream, and once `deadline` has passed."""
    while (data := channel.receive()) is None:
        _wait(channel.read_fd, select.POLLIN, deadline)
    return data


def send(channel: Channel, data: bytes, deadline: Optional[float] = None) -> None:
    """Send all of it, as slowly as the host reads; raises HostGoneError as `receive` does."""
    rest = memoryview(data)
    while True:
        rest = rest[channel.send(rest) :]
        if not rest and not channel.pending:
            return
        _wait(channel.write_fd, select.POLLOUT, deadline)


def linger(channel: Channel, seconds: float) -> None:
    """End a stream so that what was sent last arrives: say so, and let the host be the one to close."""
    channel.finish()
    deadline = time.monotonic() + seconds
    with suppress(HostGoneError):
        while True:
            receive(channel, deadline)


def _wait(fd: int, events: int, deadline: Optional[float]) -> None:
    poll = select.poll()
    poll.register(fd, events)
    if deadline is None:
        poll.poll()
        return
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise HostGoneError("out of time")
