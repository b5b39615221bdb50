"""One connection's protocol without I/O: authentication, then messages.

Source: D-Bus specification, "Authentication Protocol" (EXTERNAL: the kernel says who we are).
"""

from __future__ import annotations

import os

from reflexarc_agent.backends.linux.dbus.errors import BusConnectError, FormatError
from reflexarc_agent.backends.linux.dbus.message import FIXED, Message, decode_message, length

LINE_BYTES = 16384


class Protocol:
    """Feed it what was received; send what `outgoing` hands out."""

    def __init__(self, uid: int | None = None) -> None:
        identity = str(os.getuid() if uid is None else uid).encode().hex()
        self._received = bytearray()
        self._out = bytearray(f"\0AUTH EXTERNAL {identity}\r\n".encode())
        self.authenticated = False

    def outgoing(self) -> bytes:
        """The bytes to send now; they are handed out once."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def send(self, data: bytes) -> None:
        """Queue an encoded message; the caller waits until `authenticated`."""
        self._out += data

    def receive(self, data: bytes) -> list[Message]:
        """The messages completed by these bytes.

        Raises BusConnectError where the other side refuses us, FormatError where it isn't D-Bus.
        """
        self._received += data
        if not self.authenticated and not self._authenticate():
            return []
        return self._messages()

    def _authenticate(self) -> bool:
        end = self._received.find(b"\r\n", 0, LINE_BYTES)
        if end < 0:
            if len(self._received) >= LINE_BYTES:
                raise FormatError("an authentication line without an end")
            return False
        line = bytes(self._received[:end])
        del self._received[: end + 2]
        if not line.startswith(b"OK "):
            raise BusConnectError(f"the bus refused this user: {line[:100].decode('ascii', 'replace')}")
        self._out += b"BEGIN\r\n"
        self.authenticated = True
        return True

    def _messages(self) -> list[Message]:
        buffer, at, messages = self._received, 0, []
        while len(buffer) - at >= FIXED:
            total = length(buffer, at)
            if len(buffer) - at < total:
                break
            messages.append(decode_message(bytes(buffer[at : at + total])))
            at += total
        if at:
            del buffer[:at]
        return messages
