"""A conversation with an agent: requests and their replies, a command's frames, events; every wait has an end."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TypeVar

from reflexarc.drivers.agent.errors import broken, lost, refused, said
from reflexarc.drivers.agent.streams import Stream, UnreachableError
from reflexarc.errors import ConnectError, MachineError, OperationRejectedError, OperationTimeoutError
from reflexarc_wire import Answer, HostEnd, WireError
from reflexarc_wire.frames import FromGuest, FromHost
from reflexarc_wire.replies import Failure
from reflexarc_wire.requests import Exec, Request
from reflexarc_wire.values import Event

R = TypeVar("R")

TIMEOUT = 30.0
"""Seconds that an agent has for a reply, unless the caller says otherwise."""

LARGE = 1 << 20
"""Bytes of a message from which on it is read beside the event loop: 32 MiB of JSON take a second and more."""

QUEUED = 8


class Conversation:
    """One connection to the agent of a machine; `close` ends it, and a command that runs on it.

    Raises ConnectError before anything of a request was sent, ConnectionLostError afterwards.
    """

    def __init__(self, stream: Stream, machine: str) -> None:
        self._stream = stream
        self._machine = machine
        self._end = HostEnd()
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[object]] = {}
        self._told: asyncio.Queue[FromGuest | Event] = asyncio.Queue(QUEUED)
        self._fault: WireError | str | None = None
        self._over = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def alive(self) -> bool:
        """Whether nothing has ended it yet."""
        return not self._over.is_set()

    async def ask(self, request: Request, reply: type[R], *, operation: str, timeout: float = TIMEOUT) -> R:
        """Ask and return the reply, which is a `reply`.

        Raises OperationRejectedError where the agent refuses, OperationTimeoutError where it doesn't answer in time
        (the conversation is over then) or says that something in the guest didn't.
        """
        line = self._written(request, operation)
        future = asyncio.get_running_loop().create_future()
        self._asked[id(request)] = future
        try:
            async with asyncio.timeout(timeout):
                await self._send(line, operation)
                await asyncio.wait((future, self._reading), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self.close()
            raise OperationTimeoutError(
                f"its agent did not answer {request.op} within {timeout:g} s; look what became of it",
                machine=self._machine,
                operation=operation,
            ) from error
        finally:
            self._asked.pop(id(request), None)
        if not future.done():
            raise self._failure(operation)
        answer = future.result()
        if isinstance(answer, Failure):
            raise refused(answer, request, machine=self._machine, operation=operation)
        assert isinstance(answer, reply), answer
        return answer

    async def start(self, request: Exec, *, operation: str) -> None:
        """Start a command, which has this conversation to itself from now on."""
        await self._send(self._written(request, operation), operation)

    async def send(self, frame: FromHost, *, operation: str) -> None:
        """Send a frame to the command; nothing where it has ended already."""
        with suppress(WireError):
            await self._send(self._end.send(frame), operation)

    async def next(self, *, operation: str) -> FromGuest | Event:
        """Wait for the command's next frame, or the next event."""
        if self._told.empty():
            getting = asyncio.ensure_future(self._told.get())
            try:
                await asyncio.wait((getting, self._reading), return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    return getting.result()
            finally:
                getting.cancel()
        if self._told.empty():
            raise self._failure(operation)
        return self._told.get_nowait()

    async def close(self) -> None:
        """End it; closing twice is fine."""
        self._over.set()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._stream.close()

    def _written(self, request: Request, operation: str) -> bytes:
        """The bytes of a request that is about to be sent."""
        if not self.alive:
            raise ConnectError(
                "the connection to its agent has ended; nothing was sent",
                machine=self._machine,
                operation=operation,
            )
        try:
            return self._end.ask(request, None if self._stream.shared else next(self._ids))
        except WireError as error:
            raise OperationRejectedError(
                f"its agent can't be asked that: {error}",
                machine=self._machine,
                operation=operation,
                code=error.code,
            ) from error

    async def _send(self, data: bytes, operation: str) -> None:
        try:
            await self._stream.write(data)
        except OSError as error:
            raise lost(str(error), machine=self._machine, operation=operation) from error

    async def _read(self) -> None:
        """Take in what the agent says until it ends; what was asked and not answered is left open then."""
        held = 0
        try:
            while data := await self._stream.read():
                self._end.feed(data)
                held += len(data)
                while (found := await self._parsed(held)) is not None:
                    held = 0
                    await self._take(found)
        except (WireError, OSError, UnreachableError) as error:
            self._fault = error if isinstance(error, WireError) else said(str(error))
        finally:
            self._over.set()

    async def _parsed(self, held: int) -> Answer | FromGuest | Event | None:
        return await asyncio.to_thread(self._end.next) if held > LARGE else self._end.next()

    async def _take(self, found: Answer | FromGuest | Event) -> None:
        if isinstance(found, Answer):
            future = self._asked.get(id(found.request))
            if future is not None and not future.done():
                future.set_result(found.reply)
        else:
            await self._told.put(found)

    def _failure(self, operation: str) -> MachineError:
        if isinstance(self._fault, WireError):
            return broken(self._fault, machine=self._machine, operation=operation)
        return lost(self._fault or "", machine=self._machine, operation=operation)
