"""Values to little-endian bytes, by signature; a variant is given as `Variant`.

Source: D-Bus specification, "Marshaling (Wire Format)".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Sequence

from reflexarc_agent.backends.linux.dbus.decoding import NUMBERS, alignment
from reflexarc_agent.backends.linux.dbus.errors import FormatError
from reflexarc_agent.backends.linux.dbus.signature import complete_types


@dataclass(frozen=True)
class Variant:
    """A value that says its own type."""

    signature: str
    value: Any


def encode(signature: str, values: Sequence[Any]) -> bytes:
    """Encode a body; raises FormatError where the values don't fit the signature."""
    types = complete_types(signature)
    if len(types) != len(values):
        raise FormatError(f"{len(values)} values for the signature {signature!r}")
    out = bytearray()
    try:
        for kind, value in zip(types, values):
            _append(out, kind, value)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise FormatError(f"a value doesn't fit the signature {signature!r}: {error}") from error
    return bytes(out)


def _pad(out: bytearray, boundary: int) -> None:
    out.extend(bytes(-len(out) % boundary))


def _append(out: bytearray, kind: str, value: Any) -> None:
    code = kind[0]
    _pad(out, alignment(kind))
    if code in NUMBERS:
        out.extend(struct.pack("<" + NUMBERS[code], value))
    elif code == "b":
        out.extend(struct.pack("<I", bool(value)))
    elif code == "a":
        _append_array(out, kind[1:], value)
    elif code == "(":
        _append_members(out, kind[1:-1], value)
    else:
        _append_text(out, code, value)


def _append_text(out: bytearray, code: str, value: Any) -> None:
    if code == "v":
        if len(complete_types(value.signature)) != 1:
            raise FormatError(f"a variant of {value.signature!r}")
        _append(out, "g", value.signature)
        _append(out, value.signature, value.value)
        return
    data = value.encode()
    if b"\0" in data:
        raise FormatError("a string with a NUL in it")
    out.extend(struct.pack("<B" if code == "g" else "<I", len(data)) + data + b"\0")


def _append_members(out: bytearray, members: str, values: Sequence[Any]) -> None:
    types = complete_types(members)
    if len(types) != len(values):
        raise FormatError(f"{len(values)} values for the members {members!r}")
    for kind, value in zip(types, values):
        _append(out, kind, value)


def _append_array(out: bytearray, element: str, values: Any) -> None:
    place = len(out)
    out.extend(bytes(4))
    _pad(out, alignment(element))
    begin = len(out)
    if element == "y":
        out.extend(values)
    elif element[0] == "{":
        for entry in values.items():
            _pad(out, 8)
            _append(out, element[1], entry[0])
            _append(out, element[2:-1], entry[1])
    else:
        for value in values:
            _append(out, element, value)
    out[place : place + 4] = struct.pack("<I", len(out) - begin)
