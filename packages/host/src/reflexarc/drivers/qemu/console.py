"""The serial console: a log that QEMU keeps, or the socket itself where there is none; written through the socket."""

from __future__ import annotations

import array
import asyncio
import codecs
import fcntl
import os
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.growth import Growth
from reflexarc.errors import ConnectError, ConnectionLostError, MachineBusyError, OperationTimeoutError
from reflexarc.machine.lock import FileLock

HISTORY_BYTES = 1 << 20
_CHUNK = 1 << 16
_TAKEN_INTERVAL = 0.005
# A machine that is lost says nothing any more: whoever reads finds out so soon.
_LOOK_AGAIN = 1.0
# QEMU writes its log by the character: what comes within a moment of the first makes one piece, and of a text
# that never ends as much as comes in an interval.
_MOMENT, _INTERVAL = 0.003, 0.03
WRITE_TIMEOUT = 20.0
CLOSE_TIMEOUT = 2.0


class Port:
    """The socket of a serial port; the first program to open it keeps it for itself until it closes.

    heard: gets what comes, at once, and nothing when the connection ends. It has to be taken: QEMU stops the
    machine's output when the socket fills up.
    """

    def __init__(self, monitor: Monitor, path: Path, heard: Callable[[bytes], None]) -> None:
        self._monitor = monitor
        self._path = path
        self._heard = heard
        self._lock = FileLock(monitor.peer.folder / "serial.lock")
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()

    async def open(self) -> asyncio.StreamWriter:
        """Connect where it is not connected yet; raises MachineBusyError where another program is."""
        async with self._busy:
            return self._writer or await self._open()

    async def write(self, data: str) -> None:
        writer = await self.open()
        async with self._busy:
            try:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    writer.write(data.encode())
                    await writer.drain()
            except TimeoutError as error:
                raise OperationTimeoutError(
                    f"the serial port took no more text for {WRITE_TIMEOUT:.0f} s; nothing in it reads",
                    machine=self._monitor.peer.machine,
                    operation="console.write",
                ) from error
            except OSError as error:
                raise await self.broken() from error

    async def broken(self) -> ConnectionLostError:
        """The error for a port that is no longer there."""
        return await asyncio.to_thread(self._monitor.peer.lost, "console.write")

    async def close(self) -> None:
        """Let others have it, once QEMU has taken what was written: it forgets what it hasn't at a hang-up."""
        if self._writer is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._taken(self._writer)
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._lock.release()

    async def _taken(self, writer: asyncio.StreamWriter) -> None:
        end = writer.get_extra_info("socket")
        unread = array.array("i", [1])
        with suppress(OSError):  # a system that doesn't tell, or a socket that has ended
            while unread[0]:
                # Source: Linux, tcp(7), SIOCOUTQ; Unix sockets answer it, too, under the terminals' number.
                fcntl.ioctl(end.fileno(), termios.TIOCOUTQ, unread)
                await asyncio.sleep(_TAKEN_INTERVAL if unread[0] else 0)

    async def _open(self) -> asyncio.StreamWriter:
        peer = self._monitor.peer
        if not self._lock.take():
            raise MachineBusyError(
                "another program writes to its serial console; end that one",
                machine=peer.machine,
                operation="console.write",
            )
        try:
            reader, self._writer = await asyncio.open_unix_connection(str(self._path))
        except OSError as error:
            if self._monitor.lost:
                raise await self.broken() from error
            raise ConnectError(
                f"its serial console can't be reached at {self._path} ({error.strerror}); correct the path",
                machine=peer.machine,
                operation="console.write",
            ) from error
        self._reading = asyncio.create_task(self._read(reader), name=f"{peer.machine}: serial")
        return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                self._heard(data)
        self._heard(b"")


class QemuConsole:
    """The first serial port of a machine whose QEMU keeps a log of it; implements `Console`.

    Any number of programs may read; the first to write keeps the port for itself until it closes.
    """

    def __init__(self, monitor: Monitor, path: Path, log: Path) -> None:
        self._monitor = monitor
        self._path = log
        self._log: tuple[int, Growth] | None = None
        self._next_at = 0.0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._port = Port(monitor, path, lambda data: None)

    async def read(self) -> str:
        """Wait for text not yet read; the first call begins with this start's history, at most a megabyte."""
        log, growth = self._opened()
        await asyncio.sleep(max(0.0, self._next_at - time.monotonic()))
        while not (text := self._decoder.decode(os.read(log, _CHUNK))):
            if self._monitor.lost:
                raise self._monitor.lost
            if await growth.wait(_LOOK_AGAIN):
                await asyncio.sleep(_MOMENT)
        growth.grew()
        self._next_at = time.monotonic() + _INTERVAL
        return text

    async def write(self, data: str) -> None:
        await self._port.write(data)

    async def close(self) -> None:
        """Let others write."""
        await self._port.close()
        if self._log is not None:
            os.close(self._log[0])
            self._log[1].close()
            self._log = None

    def _opened(self) -> tuple[int, Growth]:
        if self._log is None:
            log = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(log, max(0, os.fstat(log).st_size - HISTORY_BYTES), os.SEEK_SET)
            self._log = log, Growth(self._path)
        return self._log


class SocketConsole:
    """A serial port of which there is only the socket; implements `Console`. What nobody was there for is gone."""

    def __init__(self, monitor: Monitor, path: Path) -> None:
        self._port = Port(monitor, path, self._take)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unread = ""
        self._ended = False
        self._news = asyncio.Event()

    async def read(self) -> str:
        """Wait for text not yet read, of which the newest megabyte is kept."""
        await self._port.open()
        while not self._unread:
            if self._ended:
                raise await self._port.broken()
            self._news.clear()
            await self._news.wait()
        text, self._unread = self._unread, ""
        return text

    async def write(self, data: str) -> None:
        await self._port.write(data)

    async def close(self) -> None:
        """Let others have the port."""
        await self._port.close()

    def _take(self, data: bytes) -> None:
        self._ended = not data
        self._unread = (self._unread + self._decoder.decode(data))[-HISTORY_BYTES:]
        self._news.set()
