"""Messages: calls, replies, errors and signals.

Source: D-Bus specification, "Message Protocol".
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from reflexarc_agent.backends.linux.dbus.decoding import decode
from reflexarc_agent.backends.linux.dbus.encoding import Variant, encode
from reflexarc_agent.backends.linux.dbus.errors import CallError, FormatError

CALL, REPLY, ERROR, SIGNAL = 1, 2, 3, 4
NO_REPLY_EXPECTED = 1
FIXED = 16
"""Bytes of a header before its fields."""

MESSAGE_BYTES = 1 << 25
"""A quarter of what D-Bus allows; 50,000 cached elements need 24 MiB."""

PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE = range(1, 9)
_FIELD = {PATH: "o", SIGNATURE: "g", REPLY_SERIAL: "u"}


class Message:
    """A message as it was received; the body is decoded when `values` is called."""

    __slots__ = ("body", "fields", "flags", "kind", "order", "serial")

    def __init__(self, kind: int, flags: int, serial: int, fields: dict[int, Any], body: bytes, order: str):
        self.kind = kind
        self.flags = flags
        self.serial = serial
        self.fields = fields
        self.body = body
        self.order = order

    def text(self, field: int) -> str:
        """A field of the header, "" where it isn't there."""
        value = self.fields.get(field)
        return value if isinstance(value, str) else ""

    def values(self) -> tuple[Any, ...]:
        """The decoded body; raises FormatError where it doesn't fit its signature."""
        return decode(self.text(SIGNATURE), self.body, self.order)

    def result(self) -> tuple[Any, ...] | CallError:
        """What a reply says: its values, or the error it is."""
        if self.kind != ERROR:
            return self.values()
        values = self.values()
        text = values[0] if values and isinstance(values[0], str) else ""
        return CallError(self.text(ERROR_NAME), text[:500])


@lru_cache(maxsize=4096)
def _fields(destination: str, interface: str, member: str, signature: str) -> bytes:
    """The fields that calls of one kind share, padded so that another can follow."""
    named = ((SIGNATURE, signature), (DESTINATION, destination), (INTERFACE, interface), (MEMBER, member))
    out = b""
    for code, text in named:
        if text:
            out += encode("(yv)", [(code, Variant(_FIELD.get(code, "s"), text))])
            out += bytes(-len(out) % 8)
    return out


def encode_call(
    serial: int, destination: str, path: str, interface: str, member: str, signature: str, body: bytes
) -> bytes:
    """The bytes of a method call; `destination` is "" between two peers."""
    place = path.encode()
    fields = _fields(destination, interface, member, signature)
    last = b"\x01\x01o\0" + struct.pack("<I", len(place)) + place + b"\0"
    size = len(fields) + len(last)
    head = struct.pack("<4sIII", b"l\1\0\1", len(body), serial, size)
    return b"".join((head, fields, last, bytes(-size % 8), body))


def encode_message(
    kind: int, serial: int, fields: dict[int, Any], signature: str = "", values: Any = ()
) -> bytes:
    """The bytes of any message; `fields` by their code, the signature's own left out."""
    body = encode(signature, values)
    if signature:
        fields = {**fields, SIGNATURE: signature}
    listed = [(code, Variant(_FIELD.get(code, "s"), value)) for code, value in fields.items()]
    head = encode("yyyyuua(yv)", [ord("l"), kind, 0, 1, len(body), serial, listed])
    return head + bytes(-len(head) % 8) + body


def length(data: bytes | bytearray, at: int) -> int:
    """The bytes of the message whose first 16 are there; raises FormatError where it is none, or too large."""
    order = _order(data[at])
    body, _, fields = struct.unpack_from(order + "III", data, at + 4)
    total = FIXED + ((fields + 7) & ~7) + body
    if data[at + 3] != 1 or total > MESSAGE_BYTES:
        raise FormatError(f"a message of {total} bytes, protocol version {data[at + 3]}")
    return int(total)


def decode_message(data: bytes) -> Message:
    """Decode one whole message; raises FormatError where its header is broken."""
    order = _order(data[0])
    body, serial, size = struct.unpack_from(order + "III", data, 4)
    try:
        fields = _decode_fields(data, size, order)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"a broken header: {error}") from error
    return Message(data[1], data[2], serial, fields, data[len(data) - body :], order)


def _order(mark: int) -> str:
    if mark not in b"lB":
        raise FormatError(f"no message begins with {mark:#x}")
    return "<" if mark == ord("l") else ">"


def _decode_fields(data: bytes, size: int, order: str) -> dict[int, Any]:
    at, end = FIXED, FIXED + size
    unpack = struct.Struct(order + "I").unpack_from
    fields: dict[int, Any] = {}
    while at < end:
        code, kind = data[at], data[at + 1 : at + 4]
        if kind == b"\1u\0":
            fields[code], at = unpack(data, at + 4)[0], at + 8
            continue
        if kind == b"\1g\0":
            begin = at + 5
            stop = begin + data[at + 4]
        elif kind in (b"\1s\0", b"\1o\0"):
            begin = at + 8
            stop = begin + unpack(data, at + 4)[0]
        else:
            raise FormatError(f"a header field of the type {kind!r}")
        if stop >= end:
            raise FormatError("a header field longer than its header")
        fields[code], at = data[begin:stop].decode("utf-8"), (stop + 8) & ~7
    return fields
