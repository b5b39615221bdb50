"""Byte streams to an agent, over whatever leads to it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Protocol

CHUNK = 1 << 18
"""Bytes read at once; asyncio holds at most twice as many for a reader that doesn't read."""

CLOSE_TIMEOUT = 2.0


class UnreachableError(Exception):
    """Nothing could be reached, and nothing was sent to an agent; the text says why."""


class Stream(Protocol):
    """One connection to an agent, or what stands for it on a stream that several share.

    shared: whether its requests carry no ids of their own.
    """

    shared: bool

    async def read(self) -> bytes:
        """Wait for bytes; b"" at the end. Raises OSError where the stream broke."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, as slowly as the agent reads; raises OSError."""
        ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """A way to the agent; `name` says which, in errors."""

    name: str

    async def connect(self) -> Stream:
        """Begin a connection; raises UnreachableError, or OSError. It may take as long as it likes."""
        ...

    async def close(self) -> None:
        """Give back what is kept between connections."""
        ...


class SocketStream:
    """A socket, or the pipes of a program."""

    shared = False

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def ended(self) -> bool:
        """Whether the other side has closed and all it said is read."""
        return self._reader.at_eof()

    async def read(self) -> bytes:
        return await self._reader.read(CHUNK)

    async def read_line(self, limit: int) -> bytes:
        """Read up to a newline and no byte further; less at the end of the stream, or at the limit."""
        line = b""
        while len(line) < limit and not line.endswith(b"\n"):
            byte = await self._reader.read(1)
            if not byte:
                break
            line += byte
        return line

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        # What isn't sent yet is for nobody: a peer that doesn't read must not hold this up.
        self._writer.transport.abort()
        with suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._writer.wait_closed()
