"""The device's process: sockets to QEMU and to the host's programs around the device."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from reflexarc.drivers.qemu.vsock.device import Device
from reflexarc.drivers.qemu.vsock.frontend import FrontEnd
from reflexarc.drivers.qemu.vsock.loop import HUNG_UP, READABLE, WRITABLE, Loop

TICK = 1.0
# How long QEMU may take to connect for the first time.
START_PATIENCE = 60.0
GREETING_PATIENCE = 10.0
MAX_GREETINGS = 256
_LONGEST_GREETING = len(b"CONNECT 4294967295\r\n")


class HostStream:
    """A host program's socket, which tells the device what happens; implements `Stream`."""

    def __init__(self, connection: socket.socket, loop: Loop, device: Device) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._loop = loop
        self._device = device
        self._watched: int | None = None
        self._has_hung_up = False

    def read_into(self, views: Sequence[memoryview]) -> int | None:
        try:
            return self._socket.recvmsg_into(views)[0]
        except BlockingIOError:
            return None

    def write(self, views: Sequence[memoryview | bytes]) -> int:
        try:
            return self._socket.sendmsg(views)
        except BlockingIOError:
            return 0

    def watch(self, *, reading: bool, writing: bool) -> None:
        wanted = (READABLE if reading else 0) | (WRITABLE if writing else 0)
        if wanted != self._watched and not self._has_hung_up:
            self._watched = wanted
            self._loop.watch(self._socket.fileno(), wanted, self._happened)

    def gone(self) -> bool:
        state = select.poll()
        state.register(self._socket, 0)
        return bool(state.poll(0))

    def end_writing(self) -> None:
        self._shut(socket.SHUT_WR)

    def end_reading(self) -> None:
        self._shut(socket.SHUT_RD)

    def close(self) -> None:
        self._loop.forget(self._socket.fileno())
        self._socket.close()

    def _shut(self, how: int) -> None:
        try:
            self._socket.shutdown(how)
        except OSError:
            return  # it has ended by itself

    def _happened(self, events: int) -> None:
        if events & HUNG_UP:
            # It would be told again and again.
            self._has_hung_up = True
            self._loop.forget(self._socket.fileno())
            self._device.hung_up(self)
            return
        if events & READABLE:
            self._device.readable(self)
        if events & WRITABLE:
            self._device.writable(self)


class _Greeting:
    """A host program that has not said yet which port it wants."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.deadline = deadline
        self._said = b""

    def port(self) -> int | None:
        """The port, None until it is said; what follows is left to be read.

        Raises ValueError for anything else, OSError where the program is gone.
        """
        seen = self.socket.recv(_LONGEST_GREETING - len(self._said), socket.MSG_PEEK)
        line, newline, _ = seen.partition(b"\n")
        self._said += self.socket.recv(len(line) + len(newline))
        if newline:
            return greeted_port(self._said)
        if not seen or len(self._said) >= _LONGEST_GREETING:
            raise ValueError("no greeting")
        return None


def greeted_port(line: bytes) -> int:
    """The port of a `CONNECT <port>` line; raises ValueError for anything else."""
    word, _, number = line.strip().partition(b" ")
    if word != b"CONNECT" or not number.isdigit() or int(number) >= 0xFFFFFFFF:
        raise ValueError("no greeting")
    return int(number)


class Service:
    """The device between two listening sockets; `path` is what host programs connect to.

    is_wanted: asked about every second once QEMU's connection has ended; the service ends when it isn't.
    """

    def __init__(
        self,
        front_ends: socket.socket,
        programs: socket.socket,
        path: Path,
        *,
        is_wanted: Callable[[], bool],
        note: Callable[[str], None],
        limit: int,
    ) -> None:
        self._loop = Loop()
        self._front_ends = front_ends
        self._programs = programs
        self._path = path
        self._is_wanted = is_wanted
        self._note = note
        self._device = Device(self, time.monotonic, note, limit)
        self._front_end: FrontEnd | None = None
        self._greetings: dict[int, _Greeting] = {}
        self._patience = time.monotonic() + START_PATIENCE

    def run(self) -> None:
        """Serve until nobody wants it any more."""
        for listener, call in ((self._front_ends, self._admit), (self._programs, self._welcome)):
            listener.setblocking(False)
            self._loop.watch(listener.fileno(), READABLE, call)
        checked = time.monotonic()
        while True:
            has_more = self._device.work()
            if self._front_end is not None:
                self._front_end.announce()
            self._loop.turn(0 if has_more else TICK if self._ticks() else None)
            if self._ticks() and time.monotonic() - checked >= TICK:
                checked = time.monotonic()
                self._expire(checked)
                if self._front_end is None and checked > self._patience and not self._is_wanted():
                    return

    def connect(self, port: int) -> HostStream | None:
        """Connect to what listens for the guest; implements `Host`."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            connection.connect(f"{self._path}_{port}")
        except OSError:
            connection.close()
            return None
        return HostStream(connection, self._loop, self._device)

    def _ticks(self) -> bool:
        return self._front_end is None or bool(self._greetings) or self._device.waits

    def _admit(self, _: int) -> None:
        """QEMU connects: one at a time, the next one waits."""
        try:
            connection, _ = self._front_ends.accept()
        except OSError:
            return
        self._patience = 0.0
        self._loop.forget(self._front_ends.fileno())
        self._front_end = FrontEnd(connection, self._device, self._loop, note=self._note, ended=self._left)

    def _left(self) -> None:
        self._front_end = None
        self._loop.watch(self._front_ends.fileno(), READABLE, self._admit)

    def _welcome(self, _: int) -> None:
        try:
            connection, _ = self._programs.accept()
        except OSError as error:
            self._note(f"a program can't be let in: {error}")
            return
        if len(self._greetings) >= MAX_GREETINGS:
            connection.close()
            return
        greeting = _Greeting(connection, time.monotonic() + GREETING_PATIENCE)
        self._greetings[connection.fileno()] = greeting
        self._loop.watch(connection.fileno(), READABLE, lambda _: self._hear(greeting))

    def _hear(self, greeting: _Greeting) -> None:
        try:
            port = greeting.port()
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._dismiss(greeting).close()
            return
        if port is not None:
            stream = HostStream(self._dismiss(greeting), self._loop, self._device)
            if not self._device.open(stream, port):
                stream.close()

    def _dismiss(self, greeting: _Greeting) -> socket.socket:
        self._loop.forget(greeting.socket.fileno())
        del self._greetings[greeting.socket.fileno()]
        return greeting.socket

    def _expire(self, now: float) -> None:
        self._device.expire()
        for greeting in [one for one in self._greetings.values() if one.deadline <= now]:
            self._dismiss(greeting).close()
