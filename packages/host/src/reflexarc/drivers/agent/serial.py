"""A serial port of QEMU's, on which one stream carries every conversation."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from pathlib import Path

from reflexarc.drivers.agent.streams import CHUNK, CLOSE_TIMEOUT, SocketStream, UnreachableError
from reflexarc.machine.lock import FileLock
from reflexarc_wire import WireError
from reflexarc_wire.shared import SharedHost

SYNC_INTERVAL = 1.0
MAX_HELD = 48 << 20
"""Bytes of one conversation that wait to be read: more than a message and a command's window have."""


class VirtioSerial:
    """The unix socket of QEMU's character device; a lock keeps a second program from hanging there."""

    def __init__(self, path: Path, lock: Path) -> None:
        self.name = f"virtio_serial:{path} (one program at a time)"
        self._path = path
        self._lock = FileLock(lock)
        self._port: Port | None = None
        self._opening = asyncio.Lock()

    async def connect(self) -> Line:
        async with self._opening:
            if self._port is None or self._port.over:
                await self._leave()
                self._port = await self._opened()
        return self._port.line()

    async def close(self) -> None:
        await self._leave()
        self._lock.release()

    async def _opened(self) -> Port:
        self._lock.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._lock.take():
            raise UnreachableError(
                f"another program of this host has the port ({self._lock.holder() or 'it does not say which'}); end it"
            )
        port = Port(SocketStream(*await asyncio.open_unix_connection(self._path, limit=CHUNK)))
        try:
            await port.sync()
        except BaseException:
            await port.close()
            raise
        return port

    async def _leave(self) -> None:
        if self._port is not None:
            await self._port.close()
            self._port = None


class Port:
    """The stream, while it is one: it ends where the agent was started anew."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._shared = SharedHost(secrets.token_hex(16))
        self._lines: dict[int, Line] = {}
        self._synced = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def over(self) -> bool:
        return self._reading.done()

    async def sync(self) -> None:
        """Agree with the agent where the stream begins; it takes as long as there is no agent."""
        while not self._synced.is_set():
            if self.over:
                raise UnreachableError("the port closed at once; is another program connected to it?")
            await self._stream.write(self._shared.sync())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._synced.wait(), SYNC_INTERVAL)

    def line(self) -> Line:
        """Begin a conversation."""
        if self.over:
            raise UnreachableError("the port closed")
        number = self._shared.open()
        self._lines[number] = Line(self, number)
        return self._lines[number]

    async def say(self, number: int, lines: bytes) -> None:
        """Send whole lines of a conversation; raises OSError."""
        if self.over:
            raise ConnectionResetError("the port closed")
        await self._stream.write(self._shared.say(number, lines))

    async def leave(self, number: int) -> None:
        """End a conversation, and with it a command that runs in it."""
        self._lines.pop(number, None)
        farewell = self._shared.leave(number)
        if farewell and not self.over:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._stream.write(farewell)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._stream.close()

    async def _read(self) -> None:
        try:
            while data := await self._stream.read():
                self._shared.feed(data)
                self._hand_out()
        except (WireError, OSError):
            pass  # the stream is begun anew by the next who connects
        finally:
            for line in self._lines.values():
                line.take(b"")

    def _hand_out(self) -> None:
        while (heard := self._shared.next()) is not None:
            number, data = heard
            if number in self._lines:
                self._lines[number].take(data)
        if self._shared.synced:
            self._synced.set()


class Line:
    """One conversation on the port."""

    shared = True

    def __init__(self, port: Port, number: int) -> None:
        self._port = port
        self._number = number
        self._held = bytearray()
        self._over = False
        self._news = asyncio.Event()

    def take(self, data: bytes) -> None:
        """Keep what the agent said, b"" for the end; more than can be due ends it, as nobody can be held up here."""
        self._over = self._over or not data or len(self._held) + len(data) > MAX_HELD
        if not self._over:
            self._held += data
        self._news.set()

    async def read(self) -> bytes:
        while not self._held and not self._over:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._held)
        self._held.clear()
        return data

    async def write(self, data: bytes) -> None:
        await self._port.say(self._number, data)

    async def close(self) -> None:
        await self._port.leave(self._number)
