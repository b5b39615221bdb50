"""The D-Bus messages of QEMU's display, read from bytes that nobody vouches for; no I/O.

Source: D-Bus specification, "Message Protocol"; QEMU, ui/dbus-display1.xml, org.qemu.Display1.Listener.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from jeepney import Header, HeaderFields, MessageFlag, MessageType

from reflexarc.errors import PeerProtocolError
from reflexarc.machine.frame import MAX_PIXELS, Pixels

MAX_MESSAGE = 300 << 20
_MAX_FIELDS = 4096
_ORDERS: Mapping[int, str] = {ord("l"): "<", ord("B"): ">"}
_FIXED = 16
# Source: pixman.h; both are 32-bit words 0x??RRGGBB.
_RGB_FORMATS = frozenset({0x20020888, 0x20028888})
_LAYOUTS: Mapping[tuple[object, object], str] = {
    ("Scanout", "uuuuay"): "IIII",
    ("Update", "iiiiuuay"): "iiiiII",
}

_Header = tuple[MessageType, bool, Mapping[HeaderFields, object]]


@dataclass(slots=True)
class Incoming:
    """A message: `fields` of its header by their code, `body` as it came, `order` the struct code of its bytes."""

    kind: MessageType
    wants_reply: bool
    serial: int
    fields: Mapping[HeaderFields, object]
    body: memoryview
    order: str

    @property
    def member(self) -> object:
        return self.fields.get(HeaderFields.member)

    def replies_to(self, serial: int) -> bool:
        """Tell whether this is the reply, good or bad, to the call with that serial."""
        return self.fields.get(HeaderFields.reply_serial) == serial


@dataclass(slots=True, eq=False)
class Change:
    """New pixels at (x, y); `whole` where they are the whole screen, in whatever size it has now.

    pixels is None where they came in a form that isn't read; the screen has changed all the same.
    """

    x: int
    y: int
    width: int
    height: int
    pixels: Pixels | None
    whole: bool


class Inbox:
    """Cuts a stream into messages."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._rest = bytearray()
        self._wanted = 0

    def feed(self, data: bytes) -> list[Incoming]:
        """Take bytes in and return the messages they complete, whose bodies are parts of them.

        Raises PeerProtocolError when they are no D-Bus message or one above 300 MiB; nothing may follow then.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return []
            data = bytes(self._rest)
        stream, at = memoryview(data), 0
        messages = []
        while (end := self._end(stream[at:])) <= len(data) - at:
            messages.append(self._cut(stream[at : at + end]))
            at += end
        self._rest, self._wanted = bytearray(stream[at:]), end
        return messages

    @property
    def empty(self) -> bool:
        """Whether everything that came has been taken out."""
        return not self._rest

    def _end(self, stream: memoryview) -> int:
        """The length of the first message; of one whose beginning isn't there yet, that of a beginning."""
        if len(stream) < _FIXED:
            return _FIXED
        start, body_length = self._lengths(stream)
        return start + body_length

    def _lengths(self, stream: memoryview) -> tuple[int, int]:
        order = _ORDERS.get(stream[0])
        if order is None or stream[3] != 1:
            raise self._broken("no D-Bus message", stream)
        body_length, _, fields_length = struct.unpack_from(order + "III", stream, 4)
        start = (_FIXED + fields_length + 7) // 8 * 8
        if fields_length > _MAX_FIELDS or start + body_length > MAX_MESSAGE:
            raise self._broken("a D-Bus message that is too long", stream)
        return start, body_length

    def _cut(self, message: memoryview) -> Incoming:
        start, _ = self._lengths(message)
        order = _ORDERS[message[0]]
        (serial,) = struct.unpack_from(order + "I", message, 8)
        kind, wants_reply, fields = self._header(message[:start])
        return Incoming(kind, wants_reply, serial, fields, message[start:], order)

    def _header(self, raw: memoryview) -> _Header:
        """Read the header; messages of one sort differ only in the lengths and the serial, left out here."""
        try:
            return _read_header(bytes(raw[:4]) + bytes(8) + bytes(raw[12:]))
        except (ValueError, LookupError, TypeError, AssertionError, RecursionError, struct.error) as error:
            raise self._broken("a D-Bus header that can't be read", raw) from error

    def _broken(self, problem: str, stream: memoryview) -> PeerProtocolError:
        return PeerProtocolError(
            f"QEMU's display sent {problem}", machine=self._machine, raw=bytes(stream[:200])
        )


@lru_cache(maxsize=64)
def _read_header(raw: bytes) -> _Header:
    # jeepney never ends on an array of empty structures.
    if b"()" in raw:
        raise ValueError("an empty structure")
    header = Header.from_buffer(raw)[0]
    asks = header.message_type is MessageType.method_call
    wants_reply = asks and not header.flags & MessageFlag.no_reply_expected
    return header.message_type, wants_reply, MappingProxyType(header.fields)


def change(message: Incoming, machine: str) -> Change | None:
    """Return what a listener's call changes on the screen, None for a call about something else.

    Raises PeerProtocolError where its arguments don't fit together.
    """
    layout = _LAYOUTS.get((message.member, message.fields.get(HeaderFields.signature)))
    if layout is None:
        unread = message.member in ("ScanoutDMABUF", "UpdateDMABUF")
        return Change(0, 0, 0, 0, None, whole=True) if unread else None
    try:
        *place, stride, pixel_format, length = struct.unpack_from(message.order + layout + "I", message.body)
        x, y, width, height = place if len(place) == 4 else (0, 0, *place)
        data = message.body[struct.calcsize(layout + "I") :]
        if len(data) != length:
            raise ValueError(f"{len(data)} bytes of {length}")
        pixels = _pixels(data, width, height, stride, pixel_format)
    except (ValueError, struct.error) as error:
        raise PeerProtocolError(
            f"QEMU's display sent a {message.member} that contradicts itself ({error})",
            machine=machine,
            raw=bytes(message.body[:200]),
        ) from error
    return Change(x, y, width, height, pixels, whole=message.member == "Scanout")


def _pixels(data: memoryview, width: int, height: int, stride: int, pixel_format: int) -> Pixels | None:
    if width <= 0 or height <= 0 or width * height > MAX_PIXELS:
        raise ValueError(f"{width}x{height} pixels")
    if pixel_format not in _RGB_FORMATS:
        return None
    if stride % 4 or stride < width * 4 or stride * height != len(data):
        raise ValueError(f"{len(data)} bytes for {width}x{height} pixels in rows of {stride} bytes")
    words = np.frombuffer(data, np.uint32).reshape(height, stride // 4)
    return words[:, :width] & np.uint32(0x00FFFFFF)
