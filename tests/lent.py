"""The agent's driver as tests open it, and peers that stand for an agent or for what leads to one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from reflexarc.drivers.agent.config import AgentConfig
from reflexarc.drivers.agent.driver import AgentCapabilities, open_driver
from reflexarc.machine.capabilities import Command, Exited, Files, Output, Shell, Stream
from reflexarc_wire import Id
from reflexarc_wire.shared import Astray, Began, Left, Said, SharedGuest

TOKEN = "0123456789abcdef0123456789abcdef"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def lent(state_dir: Path, **settings: Any) -> AsyncIterator[AgentCapabilities]:
    """What the driver lends by these settings of the inventory."""
    table = {"enabled": True, **{key: _plain(value) for key, value in settings.items()}}
    config = AgentConfig.parse(table, machine="guest", folder=state_dir)
    async with open_driver(config, machine="guest", state_dir=state_dir) as found:
        yield found


async def ran(shell: Shell | None, command: Command) -> tuple[bytes, bytes, int | None]:
    """Run a command to its end: what it wrote, and its status."""
    assert shell is not None
    said, status = dict.fromkeys(Stream, b""), None
    async with aclosing(shell.run(command)) as pieces:
        async for piece in pieces:
            match piece:
                case Output(stream, data):
                    said[stream] += data
                case Exited(found):
                    status = found
    return said[Stream.STDOUT], said[Stream.STDERR], status


async def content(files: Files | None, path: str) -> bytes:
    """The whole of a file."""
    assert files is not None
    async with aclosing(files.read(path)) as pieces:
        return b"".join([piece async for piece in pieces])


async def cut(data: bytes, size: int = 100_000) -> AsyncGenerator[bytes, None]:
    """Data in pieces, as callers give it."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


@asynccontextmanager
async def peer(path: Path, serve: Serve) -> AsyncIterator[None]:
    """Serve whoever connects to a unix socket, and close what was served."""
    serving: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_unix_server(connected, path)
    try:
        yield
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends, then close."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def hybrid(agent: Path) -> Serve:
    """What leads to a guest's vsock, by the convention of Firecracker; port 2035 is the agent's."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline() != b"CONNECT 2035\n":
            return
        inside_reader, inside_writer = await asyncio.open_unix_connection(agent)
        writer.write(b"OK 1073741825\n")
        await asyncio.gather(pump(reader, inside_writer), pump(inside_reader, writer))

    return serve


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def serial(agent: Path) -> Serve:
    """A guest's end of a serial port: each conversation on it is a connection to the agent at that socket."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guest = SerialGuest(agent, writer)
        try:
            while data := await reader.read(1 << 16):
                await guest.hear(data)
        finally:
            await guest.close()

    return serve


class SerialGuest:
    """Takes the port's stream apart, and puts the agent's answers on it."""

    def __init__(self, agent: Path, port: asyncio.StreamWriter) -> None:
        self._agent = agent
        self._port = port
        self._end = SharedGuest()
        self._inside: dict[Id, asyncio.StreamWriter] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def hear(self, data: bytes) -> None:
        self._end.feed(data)
        while (heard := self._end.next()) is not None:
            match heard:
                case Began():
                    self._port.write(self._end.begun(heard))
                case Astray():
                    self._port.write(self._end.refusal(heard))
                case Left(number):
                    left = self._inside.pop(number)
                    left.transport.abort()
                case Said(number, line):
                    (await self._connected(number)).write(line)

    async def close(self) -> None:
        for task in self._answering:
            task.cancel()
        for writer in self._inside.values():
            writer.transport.abort()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _connected(self, number: Id) -> asyncio.StreamWriter:
        if number not in self._inside:
            said, self._inside[number] = await asyncio.open_unix_connection(self._agent, limit=1 << 25)
            self._answering.add(asyncio.create_task(self._answer(number, said)))
        return self._inside[number]

    async def _answer(self, number: Id, said: asyncio.StreamReader) -> None:
        while line := await said.readline():
            self._port.write(self._end.prefix(number) + line[1:])
            await self._port.drain()
        self._port.write(self._end.end(number))
