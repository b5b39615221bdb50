"""The way of agents that call this host."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from pathlib import Path

from reflexarc.drivers.agent.streams import CHUNK, SocketStream, UnreachableError
from reflexarc.machine.lock import FileLock

SPARE = 8
"""How many connections of agents that call wait here at most; the newest are kept."""


class Reverse:
    """A unix socket of this host that agents call: each keeps one connection waiting."""

    def __init__(self, path: Path) -> None:
        self.name = f"reverse:{path}"
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._server: asyncio.Server | None = None
        self._waiting: deque[SocketStream] = deque(maxlen=SPARE)
        self._news = asyncio.Event()

    async def connect(self) -> SocketStream:
        if self._server is None:
            await self._listen()
        while True:
            while self._waiting:
                stream = self._waiting.popleft()
                if not stream.ended:
                    return stream
                await stream.close()
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for stream in self._waiting:
                await stream.close()
            with suppress(OSError):
                self._path.unlink()
        self._lock.release()

    async def _listen(self) -> None:
        if not self._lock.take():
            raise UnreachableError(
                f"another program of this host waits for agents on {self._path}; end it first"
            )
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(self._path))
            # Nobody can connect before it listens.
            self._path.chmod(0o600)
            self._server = await asyncio.start_unix_server(self._called, sock=listener, limit=CHUNK)
        except BaseException:
            listener.close()
            raise

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._waiting) == SPARE:
            await self._waiting.popleft().close()
        self._waiting.append(SocketStream(reader, writer))
        self._news.set()
