"""A host at one end of a serial line, with many conversations on it."""

from __future__ import annotations

import os
import select
import time
from collections import deque

from tests.agents import PATIENCE, Host

from reflexarc_wire.shared import SharedHost

RESYNC = 0.2


class Line:
    """The host's end of a line; `fd` may be a terminal, a socket or a pipe that goes both ways."""

    def __init__(self, fd: int, nonce: str) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.shared = SharedHost(nonce)
        self.heard: dict[int, deque[bytes]] = {}
        self.out = bytearray()

    def sync(self) -> None:
        """Begin with whoever is there, or comes."""
        deadline = time.monotonic() + PATIENCE
        again = 0.0
        while not self.shared.synced:
            assert time.monotonic() < deadline, "no agent answered the sync"
            if time.monotonic() >= again and not self.out:
                self.out += self.shared.sync()
                again = time.monotonic() + RESYNC
            self.pump(RESYNC)

    def host(self) -> Host:
        """Begin a conversation."""
        number = self.shared.open()
        self.heard[number] = deque()
        return Host(Conversation(self, number))  # type: ignore[arg-type]

    def pump(self, timeout: float = PATIENCE) -> bool:
        """Move what can be moved, and tell whether anything could."""
        writing = [self.fd] if self.out else []
        readable, writable, _ = select.select([self.fd], writing, [], timeout)
        if writable:
            del self.out[: os.write(self.fd, self.out)]
        if readable:
            self.shared.feed(os.read(self.fd, 1 << 16))
            while (found := self.shared.next()) is not None:
                number, line = found
                self.heard[number].append(line)
        return bool(readable or writable)


class Conversation:
    """What `Host` needs of a socket."""

    def __init__(self, line: Line, number: int) -> None:
        self.line = line
        self.number = number

    def settimeout(self, seconds: float) -> None:
        """Patience is the line's."""

    def sendall(self, data: bytes) -> None:
        self.line.out += self.line.shared.say(self.number, data)
        while self.line.out:
            assert self.line.pump(), "the line takes nothing"

    def recv(self, size: int) -> bytes:
        heard = self.line.heard[self.number]
        while not heard:
            assert self.line.pump(), "the line is silent"
        return heard.popleft()

    def close(self) -> None:
        self.line.out += self.line.shared.leave(self.number)
