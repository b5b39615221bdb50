"""The peer-to-peer connection to QEMU's D-Bus display.

QEMU hands over whole pictures (Scanout) and parts (Update) as soon as it has drawn them. QEMU 7.2 serves one
listener at a time, and is the authenticating server on both sockets.
Source: QEMU, docs/interop/dbus-display; D-Bus specification, "Authentication Protocol".
"""

from __future__ import annotations

import array
import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from jeepney import HeaderFields, Message, MessageFlag, MessageType
from jeepney.auth import BEGIN, AuthenticationError, Authenticator
from jeepney.low_level import Endianness, Header

from reflexarc.drivers.qemu import wire
from reflexarc.drivers.qemu.client import Monitor
from reflexarc.errors import PeerProtocolError

ANSWER_TIMEOUT = 10.0
_RECEIVE = 1 << 19
# The most that Linux gives an unprivileged socket, so that a redrawn screen comes in few pieces.
_SEND_BUFFER = 1 << 21
# As much is read before what has come is shown, so that an endless stream can't hold everything else up.
_BATCH = 64 << 20
# The serial of our only call on the control connection.
_REGISTER = 1

Changed = Callable[[Sequence[wire.Change]], None]


class Display:
    """A registered listener. `closed` is done when QEMU has ended it, with a PeerProtocolError if broken."""

    def __init__(self, monitor: Monitor, changed: Changed) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._monitor = monitor
        self._machine = monitor.peer.machine
        self._changed = changed
        self._inbox = wire.Inbox(self._machine)
        self._serial = 0
        # What was read last, where it was one message that wants no reply.
        self._alone = b""
        self._sockets: list[socket.socket] = []
        self._space = bytearray(_RECEIVE)

    async def open(self) -> None:
        """Register with QEMU; what is drawn from now on is reported.

        Raises PeerProtocolError when QEMU does not follow, and what a Monitor raises.
        """
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                control = await self._control()
                await self._listener(control)
        except (AuthenticationError, EOFError, OSError, TimeoutError) as error:
            raise PeerProtocolError(
                f"QEMU's display can't be opened ({error or type(error).__name__})", machine=self._machine
            ) from error

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        for end in self._sockets:
            if end.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(end)
            end.close()
        if not self.closed.done():
            self.closed.set_result(None)
        self.closed.exception()  # so that asyncio doesn't report it where nobody came to wait for it

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._sockets.append(ours)
        return ours, theirs

    async def _control(self) -> socket.socket:
        ours, theirs = self._pair()
        with theirs:
            await self._monitor.pass_descriptor("reflexarc-display", theirs.fileno())
        await self._monitor.execute(
            "add_client", {"protocol": "@dbus-display", "fdname": "reflexarc-display"}
        )
        await _authenticate(ours, descriptors=True)
        return ours

    async def _listener(self, control: socket.socket) -> None:
        ours, theirs = self._pair()
        with theirs:
            descriptors = array.array("i")
            call = _register_listener(theirs.fileno()).serialise(fds=descriptors)
            control.sendmsg([call], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        # QEMU answers the call only when the listener's own handshake is through.
        await _authenticate(ours, descriptors=False)
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, self._readable, ours)
        await self._registered(control)
        loop.add_reader(control, self._control_readable, control)

    async def _registered(self, control: socket.socket) -> None:
        inbox = wire.Inbox(self._machine)
        while True:
            data = await asyncio.get_running_loop().sock_recv(control, _RECEIVE)
            if not data:
                raise EOFError("the connection ended")
            for message in inbox.feed(data):
                if not message.replies_to(_REGISTER):
                    continue
                if message.kind is MessageType.error:
                    name = message.fields.get(HeaderFields.error_name, "an error")
                    raise PeerProtocolError(
                        f"QEMU's display refused a listener ({name})", machine=self._machine
                    )
                return

    def _control_readable(self, control: socket.socket) -> None:
        """Nothing of interest comes here but the end."""
        with suppress(BlockingIOError):
            if not self._received(control):
                self.close()

    def _readable(self, listener: socket.socket) -> None:
        """Take in what has come; most wakings are for a text cursor, which QEMU sends at every refresh."""
        try:
            data = self._received(listener)
        except BlockingIOError:
            return
        if not self._repeats(data):
            self._take(listener, data)

    def _take(self, listener: socket.socket, data: bytes) -> None:
        messages: list[wire.Incoming] = []
        try:
            with suppress(BlockingIOError):
                messages += self._inbox.feed(data)
                whole = self._inbox.empty and len(data) < _RECEIVE
                self._alone = data if whole and _is_one(messages) else b""
                for _ in range(_BATCH // _RECEIVE):
                    if len(data) < _RECEIVE:
                        break
                    data = self._received(listener)
                    messages += self._inbox.feed(data)
            self._answer(listener, messages)
            changes = [found for m in messages if (found := wire.change(m, self._machine))]
        except PeerProtocolError as error:
            self.closed.set_exception(error)
            self.close()
            return
        if changes:
            self._changed(changes)
        if data == b"":
            self.close()

    def _received(self, end: socket.socket) -> bytes:
        """What has come, empty when the connection has ended; raises BlockingIOError when nothing has."""
        try:
            return bytes(memoryview(self._space)[: end.recv_into(self._space)])
        except ConnectionResetError:
            return b""

    def _repeats(self, data: bytes) -> bool:
        """Tell whether all that came is the message before once more, under another serial."""
        alone = self._alone
        return len(data) == len(alone) > 0 and data[12:] == alone[12:] and data[:8] == alone[:8]

    def _answer(self, listener: socket.socket, messages: Sequence[wire.Incoming]) -> None:
        """Reply to calls; QEMU holds still until its first, for the listener's properties, is answered."""
        replies = b"".join(self._reply(message) for message in messages if message.wants_reply)
        if replies:
            # A full socket means that QEMU reads no replies; it doesn't depend on them after the first.
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                listener.send(replies)

    def _reply(self, message: wire.Incoming) -> bytes:
        fields: dict[HeaderFields, object] = {HeaderFields.reply_serial: message.serial}
        body: tuple[object, ...] = ()
        kind = MessageType.method_return
        if message.member == "GetAll":
            fields[HeaderFields.signature] = "a{sv}"
            body = ({},)
        elif message.member == "ScanoutDMABUF":
            kind = MessageType.error
            fields[HeaderFields.error_name] = "org.freedesktop.DBus.Error.NotSupported"
        self._serial += 1
        header = Header(Endianness.little, kind, MessageFlag.no_reply_expected, 1, 0, self._serial, fields)
        return bytes(Message(header, body).serialise())


def _is_one(messages: Sequence[wire.Incoming]) -> bool:
    return len(messages) == 1 and not messages[0].wants_reply


def _register_listener(descriptor: int) -> Message:
    fields = {
        HeaderFields.path: "/org/qemu/Display1/Console_0",
        HeaderFields.interface: "org.qemu.Display1.Console",
        HeaderFields.member: "RegisterListener",
        HeaderFields.signature: "h",
    }
    kind, flags = MessageType.method_call, MessageFlag(0)
    return Message(Header(Endianness.little, kind, flags, 1, 0, _REGISTER, fields), (descriptor,))


async def _authenticate(end: socket.socket, *, descriptors: bool) -> None:
    loop = asyncio.get_running_loop()
    handshake = Authenticator(enable_fds=descriptors)
    for line in handshake:
        await loop.sock_sendall(end, line)
        answer = await loop.sock_recv(end, 4096)
        if not answer:
            raise EOFError("the connection ended")
        handshake.feed(answer)
    await loop.sock_sendall(end, BEGIN)
