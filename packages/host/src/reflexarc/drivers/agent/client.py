"""The agent of one machine: whether it answers, one conversation for requests, one more for each command."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from reflexarc.drivers.agent.conversation import Conversation
from reflexarc.drivers.agent.errors import said, undelivered
from reflexarc.drivers.agent.streams import Transport, UnreachableError
from reflexarc.errors import (
    CapabilityError,
    ConnectError,
    ConnectionLostError,
    MachineError,
    OperationTimeoutError,
)
from reflexarc_wire import VERSION
from reflexarc_wire.replies import Done, HelloReply, PingReply
from reflexarc_wire.requests import Hello, Ping, Request
from reflexarc_wire.values import Readiness

CONNECT_TIMEOUT = 5.0
"""Seconds that connecting may take, and each reply of the introduction."""

CLIENT = "reflexarc"


@dataclass(frozen=True)
class Known:
    """What an agent said of itself. boot_id: changes with every start of the guest, empty where it isn't told."""

    version: int
    boot_id: str = ""
    agent: str = ""
    os: str = ""
    features: tuple[str, ...] = ("exec", "screen", "input", "accessibility", "apps")
    readiness: Mapping[str, Readiness] = field(default_factory=dict)


@dataclass(frozen=True)
class Control:
    """The conversation for requests; mark: what the references of this conversation, and of no other, begin with."""

    conversation: Conversation
    known: Known
    mark: str


class Agent:
    """Connects when first asked, and again where a connection was lost; never sends anything twice.

    Raises ConnectError while the agent doesn't answer: nothing was sent then. patience: seconds that connecting may
    take, and each reply until it is known what the agent is.
    """

    def __init__(
        self, transport: Transport, token: str | None, machine: str, *, patience: float = CONNECT_TIMEOUT
    ) -> None:
        self.machine = machine
        self._patience = patience
        self.transport = transport
        self._token = token
        self._control: Control | None = None
        self._connecting: asyncio.Task[Control] | None = None
        self._unavailable = False

    async def ready(self, feature: str) -> bool:
        """Tell whether the agent answers and offers the feature, so that a call can go to it.

        An agent that didn't answer is not asked again until `refresh`, or until a call that only it can serve found
        it. A connection that was lost is tried again once.
        """
        if self._unavailable and not self._is_connected():
            return False
        try:
            control = await self.control("agent.ready")
        except MachineError:
            return False
        return feature in control.known.features

    def refresh(self) -> None:
        """Forget that the agent didn't answer: the machine was switched, reset, or is starting."""
        self._unavailable = False

    async def control(self, operation: str) -> Control:
        """The conversation for requests; raises ConnectError."""
        if self._is_connected():
            assert self._control is not None
            return self._control
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        try:
            return await asyncio.shield(self._connecting)
        except UnreachableError as error:
            raise ConnectError(
                f"its agent doesn't answer at {self.transport.name}: {error}; is the guest up, and the agent running "
                "in it? Nothing was sent",
                machine=self.machine,
                operation=operation,
            ) from error

    async def ask_control(self, request: Request, operation: str) -> Control:
        """The conversation for requests, where its agent can be asked that; raises CapabilityError, too."""
        control = await self.control(operation)
        self.require(control.known, request, operation)
        return control

    @asynccontextmanager
    async def conversation(
        self, request: Request, operation: str
    ) -> AsyncIterator[tuple[Conversation, Known]]:
        """A conversation of its own, for what would hold up others; raises as `ask_control` does."""
        known = (await self.ask_control(request, operation)).known
        try:
            conversation = await self._opened()
        except UnreachableError as error:
            raise ConnectError(
                f"its agent takes no further connection at {self.transport.name}: {error}; nothing was sent",
                machine=self.machine,
                operation=operation,
            ) from error
        try:
            yield conversation, known
        finally:
            await conversation.close()

    async def look(self) -> Known:
        """Ask anew what the agent says of itself."""
        control = await self.control("agent.look")
        return await self._introduced(control.conversation)

    async def close(self) -> None:
        """End what is open."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._control is not None:
            await self._control.conversation.close()
        await self.transport.close()

    def require(self, known: Known, request: Request, operation: str) -> None:
        """Raise CapabilityError where the agent has no such operation; nothing is sent to find out."""
        if known.version < request.since:
            problem = (
                f"its agent speaks version {known.version}, which has no {request.op}; put a newer one there"
            )
        elif request.feature and request.feature not in known.features:
            problem = (
                f"its agent offers {', '.join(map(said, known.features)) or 'nothing'}, and not {request.feature}; "
                "it may have been started without it, or outside of the desktop"
            )
        else:
            return
        raise CapabilityError(f"{problem}. Nothing was sent", machine=self.machine, operation=operation)

    def _is_connected(self) -> bool:
        return self._control is not None and self._control.conversation.alive

    def _connected(self, task: asyncio.Task[Control]) -> None:
        self._connecting = None
        if not task.cancelled():
            self._unavailable = task.exception() is not None

    async def _connect(self) -> Control:
        if self._control is not None:
            await self._control.conversation.close()
        conversation = await self._opened()
        try:
            known = await self._introduced(conversation)
        except (ConnectError, ConnectionLostError, OperationTimeoutError) as error:
            await conversation.close()
            raise UnreachableError(f"it closed before it said what it is ({said(str(error))})") from error
        except BaseException:
            await conversation.close()
            raise
        # An element's number means another element in another conversation, and after a start of the guest.
        self._control = Control(conversation, known, secrets.token_hex(2))
        return self._control

    async def _opened(self) -> Conversation:
        """A conversation that is admitted; raises UnreachableError, OperationRejectedError."""
        try:
            async with asyncio.timeout(self._patience):
                stream = await self.transport.connect()
        except TimeoutError as error:
            raise UnreachableError(f"nothing answered within {self._patience:g} s") from error
        except OSError as error:
            raise UnreachableError(error.strerror or said(str(error))) from error
        conversation = Conversation(stream, self.machine)
        if self._token is not None:
            try:
                await self._greet(conversation)
            except BaseException:
                await conversation.close()
                raise
        return conversation

    async def _greet(self, conversation: Conversation) -> HelloReply:
        try:
            return await conversation.ask(
                Hello(self._token, CLIENT), HelloReply, operation="agent.hello", timeout=self._patience
            )
        except (ConnectError, ConnectionLostError, OperationTimeoutError) as error:
            raise UnreachableError(f"it closed before it said what it is ({said(str(error))})") from error

    async def _introduced(self, conversation: Conversation) -> Known:
        """Ask an agent of any version what it is."""
        pong = await conversation.ask(Ping(), PingReply, operation="agent.ping", timeout=self._patience)
        if pong.version < VERSION:
            return Known(pong.version)
        hello = await self._greet(conversation)
        return Known(hello.version, hello.boot_id, hello.agent, hello.os, hello.features, hello.readiness)


async def done(agent: Agent, request: Request, operation: str) -> None:
    """Have an act carried out, once; raises where it was not, or perhaps not, delivered."""
    control = await agent.ask_control(request, operation)
    reply = await control.conversation.ask(request, Done, operation=operation)
    error = undelivered(reply, request, machine=agent.machine, operation=operation)
    if error is not None:
        raise error
