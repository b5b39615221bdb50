"""The serial console: read from the log that QEMU keeps of it, written through its socket."""

from __future__ import annotations

import asyncio
import codecs
import os
from contextlib import suppress

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.locks import Lock
from reflexarc.errors import ConnectionLostError, MachineBusyError, OperationTimeoutError

HISTORY_BYTES = 1 << 20
_CHUNK = 1 << 16
_FAST, _SLOW = 0.005, 0.04
WRITE_TIMEOUT = 20.0


class QemuConsole:
    """The machine's first serial port; implements `Console`.

    Any number of programs may read; the first to write keeps the port for itself until it closes.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._log: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._lock: Lock | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._drain: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def read(self) -> str:
        """Wait for text not yet read; the first call begins with this start's history, at most a megabyte."""
        interval = _FAST
        while not (text := self._decoder.decode(self._next_bytes())):
            if self._monitor.lost:
                raise self._monitor.lost
            await asyncio.sleep(interval)
            interval = min(interval * 1.5, _SLOW)
        return text

    async def write(self, data: str) -> None:
        async with self._writing:
            writer = self._writer or await self._open()
            try:
                async with asyncio.timeout(WRITE_TIMEOUT):
                    writer.write(data.encode())
                    await writer.drain()
            except TimeoutError as error:
                raise OperationTimeoutError(
                    f"the serial port took no more text for {WRITE_TIMEOUT:.0f} s; nothing in it reads",
                    machine=self._monitor.vm.machine,
                    operation="console.write",
                ) from error
            except OSError as error:
                raise await self._broken() from error

    async def close(self) -> None:
        """Let others write."""
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        if self._drain is not None:
            self._drain.cancel()
            await asyncio.gather(self._drain, return_exceptions=True)
        if self._lock is not None:
            self._lock.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _next_bytes(self) -> bytes:
        if self._log is None:
            self._log = os.open(self._monitor.vm.folder / "serial.log", os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(self._log, max(0, os.fstat(self._log).st_size - HISTORY_BYTES), os.SEEK_SET)
        return os.read(self._log, _CHUNK)

    async def _open(self) -> asyncio.StreamWriter:
        vm = self._monitor.vm
        self._lock = self._lock or Lock.take(vm.folder / "serial.lock")
        if self._lock is None:
            raise MachineBusyError(
                "another program writes to its serial console; end that one",
                machine=vm.machine,
                operation="console.write",
            )
        try:
            reader, self._writer = await asyncio.open_unix_connection(str(vm.sockets / "serial.sock"))
        except OSError as error:
            raise await self._broken() from error
        self._drain = asyncio.create_task(_discard(reader), name=f"{vm.machine}: serial")
        return self._writer

    async def _broken(self) -> ConnectionLostError:
        return await asyncio.to_thread(self._monitor.vm.lost, "console.write")


async def _discard(reader: asyncio.StreamReader) -> None:
    """Empty the socket: QEMU stops the machine's output when it fills up."""
    with suppress(OSError):
        while await reader.read(_CHUNK):
            pass
