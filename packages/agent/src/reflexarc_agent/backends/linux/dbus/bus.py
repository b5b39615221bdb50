"""A connection to a bus or a peer, on asyncio: pipelined calls, signals."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Callable, NamedTuple, Union

from reflexarc_agent.backends.linux.dbus.address import socket_path
from reflexarc_agent.backends.linux.dbus.encoding import encode
from reflexarc_agent.backends.linux.dbus.errors import BusConnectError, CallError, DBusError, NoReplyError
from reflexarc_agent.backends.linux.dbus.message import (
    CALL,
    DESTINATION,
    ERROR,
    ERROR_NAME,
    NO_REPLY_EXPECTED,
    REPLY,
    REPLY_SERIAL,
    SENDER,
    SIGNAL,
    Message,
    encode_call,
    encode_message,
)
from reflexarc_agent.backends.linux.dbus.owner import connect_as, foreign_owner
from reflexarc_agent.backends.linux.dbus.protocol import Protocol

IN_FLIGHT = 400
"""Calls awaiting a reply from one destination; more wait here, so that a hung one can't fill the bus."""

CONNECT_TIMEOUT = 5.0
DAEMON = "org.freedesktop.DBus"

Result = Union["tuple[Any, ...]", DBusError]


class Call(NamedTuple):
    """A method call; `destination` is "" between two peers, `body` is encoded."""

    destination: str
    path: str
    interface: str
    member: str
    signature: str = ""
    body: bytes = b""


class Ticket:
    """A call on its way; `cancel` forgets it, and a reply that still comes is dropped."""

    __slots__ = ("call", "serial", "tell")

    def __init__(self, call: Call, tell: Callable[[Result], None]) -> None:
        self.call = call
        self.tell: Callable[[Result], None] | None = tell
        self.serial = 0


class Bus(asyncio.Protocol):
    """One connection; every method is called on its event loop."""

    def __init__(self, uid: int | None = None) -> None:
        self.name = ""
        self.on_signal: Callable[[Message], None] | None = None
        self.on_call: Callable[[Message], tuple[str, list[Any]] | None] | None = None
        self.closed = False
        self._protocol = Protocol(uid)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._serial = 0
        self._pending: dict[int, Ticket] = {}
        self._flying: dict[str, int] = {}
        self._waiting: dict[str, deque[Ticket]] = {}
        self._flush_due = False

    @classmethod
    async def connect(cls, address: str, peer: bool = False) -> Bus:
        """Connect to the bus (or with `peer` to a peer) at an address; raises BusConnectError."""
        path = socket_path(address)
        try:
            _, bus = await asyncio.wait_for(cls._connect(path), CONNECT_TIMEOUT)
            await asyncio.wait_for(asyncio.shield(bus._ready), CONNECT_TIMEOUT)
            if not peer:
                hello = Call(DAEMON, "/org/freedesktop/DBus", DAEMON, "Hello")
                bus.name = str((await bus.call(hello, CONNECT_TIMEOUT))[0])
        except (OSError, asyncio.TimeoutError, NoReplyError) as error:
            reason = str(error) or "no answer"
            raise BusConnectError(f"the bus at {address[:200]} can't be reached: {reason}") from error
        return bus

    @classmethod
    async def _connect(cls, path: str) -> tuple[asyncio.BaseTransport, Bus]:
        loop = asyncio.get_running_loop()
        owner = foreign_owner(path)
        if owner is None:
            return await loop.create_unix_connection(cls, path)
        connected = await loop.run_in_executor(None, connect_as, owner, path)
        return await loop.create_unix_connection(lambda: cls(owner), sock=connected)

    @property
    def busy(self) -> bool:
        """Whether a call is awaiting its reply."""
        return bool(self._pending)

    async def call(self, call: Call, timeout: float) -> tuple[Any, ...]:
        """Call, and wait for the reply; raises CallError, or NoReplyError when `timeout` seconds passed."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        ticket = self.post(call, lambda result: None if future.done() else future.set_result(result))
        try:
            result = await asyncio.wait_for(future, timeout)
        except asyncio.TimeoutError:
            self.cancel(ticket)
            raise NoReplyError(f"no reply to {call.member} within {timeout:g} s") from None
        if isinstance(result, DBusError):
            raise result
        return result

    def post(self, call: Call, tell: Callable[[Result], None]) -> Ticket:
        """Send a call; `tell` is called once with its result, never from within this method."""
        ticket = Ticket(call, tell)
        if self.closed:
            asyncio.get_running_loop().call_soon(self._tell, ticket, NoReplyError("the connection has ended"))
        elif self._flying.get(call.destination, 0) >= IN_FLIGHT:
            self._waiting.setdefault(call.destination, deque()).append(ticket)
        else:
            self._send(ticket)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Forget a call."""
        ticket.tell = None
        if self._pending.pop(ticket.serial, None):
            self._landed(ticket.call.destination)

    def close(self) -> None:
        """End the connection; what is still awaited is answered with NoReplyError."""
        if self._transport:
            self._transport.close()

    def _send(self, ticket: Ticket) -> None:
        self._serial = self._serial % 0xFFFFFFFF + 1
        ticket.serial = self._serial
        self._pending[ticket.serial] = ticket
        destination = ticket.call.destination
        self._flying[destination] = self._flying.get(destination, 0) + 1
        self._write(encode_call(ticket.serial, *ticket.call))

    def _write(self, data: bytes) -> None:
        self._protocol.send(data)
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._transport and not self.closed:
            self._transport.write(self._protocol.outgoing())

    def _landed(self, destination: str) -> None:
        """One call fewer is in flight: send the next that waits."""
        self._flying[destination] -= 1
        waiting = self._waiting.get(destination)
        while waiting:
            ticket = waiting.popleft()
            if ticket.tell:
                self._send(ticket)
                return
        self._waiting.pop(destination, None)
        if not self._flying[destination]:
            del self._flying[destination]

    @staticmethod
    def _tell(ticket: Ticket, result: Result) -> None:
        tell, ticket.tell = ticket.tell, None
        if tell:
            tell(result)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._protocol.outgoing())

    def data_received(self, data: bytes) -> None:
        begun = self._protocol.authenticated
        try:
            messages = self._protocol.receive(data)
        except DBusError as error:
            self._fail(error)
            return
        if not begun and self._protocol.authenticated:
            self._flush()
            self._ready.set_result(None)
        for message in messages:
            self._dispatch(message)

    def _fail(self, error: DBusError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
        if self._transport:
            self._transport.abort()

    def _dispatch(self, message: Message) -> None:
        if message.kind == SIGNAL:
            if self.on_signal:
                self.on_signal(message)
        elif message.kind == CALL:
            self._answer(message)
        else:
            ticket = self._pending.pop(message.fields.get(REPLY_SERIAL, 0), None)
            if ticket:
                self._landed(ticket.call.destination)
                self._tell(ticket, _result(message))

    def _answer(self, message: Message) -> None:
        """Answer a call by what `on_call` gives, a signature and values; what it gives nothing for isn't offered."""
        answer = self.on_call(message) if self.on_call else None
        if message.flags & NO_REPLY_EXPECTED:
            return
        fields: dict[int, Any] = {REPLY_SERIAL: message.serial}
        if message.text(SENDER):
            fields[DESTINATION] = message.text(SENDER)
        if answer is None:
            fields[ERROR_NAME] = f"{DAEMON}.Error.UnknownMethod"
        self._serial = self._serial % 0xFFFFFFFF + 1
        kind = ERROR if answer is None else REPLY
        self._write(encode_message(kind, self._serial, fields, *(answer or ())))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        lost = NoReplyError("the connection has ended")
        if not self._ready.done():
            self._ready.set_exception(BusConnectError("the bus closed the connection"))
        tickets = [*self._pending.values(), *(t for queue in self._waiting.values() for t in queue)]
        self._pending.clear()
        self._waiting.clear()
        for ticket in tickets:
            self._tell(ticket, lost)


def _result(message: Message) -> Result:
    """What a reply says; one that can't be decoded is an error of that call alone."""
    try:
        return message.result()
    except DBusError as error:
        return error


def call_of(destination: str, path: str, method: str, signature: str = "", *values: Any) -> Call:
    """A call by the method's full name, its values encoded."""
    interface, _, member = method.rpartition(".")
    return Call(destination, path, interface, member, signature, encode(signature, values))


__all__ = ["Bus", "Call", "CallError", "Result", "Ticket", "call_of"]
