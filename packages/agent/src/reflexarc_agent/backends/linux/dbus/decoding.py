"""Bytes to values, by decoders compiled once a signature.

Structures become tuples, arrays lists (of bytes: bytes; of numbers: tuples), dictionaries dicts, a variant its value.
Source: D-Bus specification, "Marshaling (Wire Format)".
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Callable

from reflexarc_agent.backends.linux.dbus.errors import FormatError
from reflexarc_agent.backends.linux.dbus.signature import complete_types

Decoder = Callable[[bytes, int, int], "tuple[Any, int]"]
"""Takes the bytes, where the value begins and how deep variants are nested; returns it and where it ends."""

NUMBERS = {"y": "B", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d", "h": "I"}
ALIGNMENT = {**dict.fromkeys("ygv", 1), **dict.fromkeys("nq", 2), **dict.fromkeys("biusoah", 4)}
ARRAY_BYTES = 1 << 26
VARIANT_DEPTH = 64


def alignment(kind: str) -> int:
    """The boundary that a value of this type begins at, in bytes."""
    return ALIGNMENT.get(kind[0], 8)


def decode(signature: str, body: bytes, order: str = "<") -> tuple[Any, ...]:
    """Decode a body; `order` is "<" for little-endian bytes, ">" for big; raises FormatError where it isn't one."""
    if not signature:
        return ()
    try:
        return _members(signature, order)(body, 0, 0)[0]  # type: ignore[no-any-return]
    except (struct.error, IndexError, UnicodeDecodeError, TypeError) as error:
        raise FormatError(f"a body that doesn't fit its signature {signature!r}: {error}") from error


@lru_cache(maxsize=1024)
def _members(signature: str, order: str) -> Decoder:
    types = complete_types(signature)
    decoders = tuple(_decoder(kind, order) for kind in types)
    if len(decoders) == 1:
        only = decoders[0]

        def one(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            value, at = only(data, at, depth)
            return (value,), at

        return one

    def several(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        values = []
        for decoder in decoders:
            value, at = decoder(data, at, depth)
            values.append(value)
        return tuple(values), at

    return several


@lru_cache(maxsize=1024)
def _decoder(kind: str, order: str) -> Decoder:
    code = kind[0]
    if code in NUMBERS:
        return _number(code, order)
    if code == "a":
        return _array(kind[1:], order)
    if code == "(":
        return _structure(kind[1:-1], order)
    if code in "so":
        return _string(order)
    return {"b": _boolean, "g": _signature, "v": _variant}[code](order)


def _number(code: str, order: str) -> Decoder:
    layout = struct.Struct(order + NUMBERS[code])
    unpack, size, mask = layout.unpack_from, layout.size, layout.size - 1

    def number(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        at = (at + mask) & ~mask
        return unpack(data, at)[0], at + size

    return number


def _boolean(order: str) -> Decoder:
    number = _number("u", order)

    def boolean(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        value, at = number(data, at, depth)
        return bool(value), at

    return boolean


def _string(order: str) -> Decoder:
    unpack = struct.Struct(order + "I").unpack_from

    def string(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        at = (at + 3) & ~3
        begin = at + 4
        end = begin + unpack(data, at)[0]
        if end >= len(data):
            raise FormatError("a string longer than its message")
        return data[begin:end].decode("utf-8", "replace"), end + 1

    return string


def _signature(order: str) -> Decoder:
    def signature(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        end = at + 1 + data[at]
        if end >= len(data):
            raise FormatError("a signature longer than its message")
        return data[at + 1 : end].decode("ascii"), end + 1

    return signature


def _variant(order: str) -> Decoder:
    signature = _signature(order)

    def variant(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        if depth >= VARIANT_DEPTH:
            raise FormatError("variants nested too deeply")
        kind, at = signature(data, at, depth)
        if len(complete_types(kind)) != 1:
            raise FormatError(f"a variant of {kind!r}")
        return _decoder(kind, order)(data, at, depth + 1)

    return variant


def _structure(members: str, order: str) -> Decoder:
    if all(member in "iuxtd" for member in members) and len({alignment(m) for m in members}) == 1:
        layout = struct.Struct(order + "".join(NUMBERS[m] for m in members))
        unpack, size = layout.unpack_from, layout.size

        def numbers(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            at = (at + 7) & ~7
            return unpack(data, at), at + size

        return numbers
    inner = _members(members, order)

    def structure(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        value, at = inner(data, (at + 7) & ~7, depth)
        return value, at

    return structure


def _span(data: bytes, at: int, unpack: Callable[..., Any], mask: int) -> tuple[int, int]:
    """Where an array's elements begin and end."""
    at = (at + 3) & ~3
    length = unpack(data, at)[0]
    begin = (at + 4 + mask) & ~mask
    if length > ARRAY_BYTES or begin + length > len(data):
        raise FormatError("an array longer than its message")
    return begin, begin + length


def _array(element: str, order: str) -> Decoder:
    unpack = struct.Struct(order + "I").unpack_from
    mask = alignment(element) - 1
    if element[0] == "{":
        return _dictionary(element[1:-1], order)
    if element in NUMBERS:
        return _numbers(element, order)
    decoder = _decoder(element, order)

    def array(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        at, end = _span(data, at, unpack, mask)
        values = []
        while at < end:
            value, at = decoder(data, at, depth)
            values.append(value)
        if at != end:
            raise FormatError("an array whose elements don't fill it")
        return values, end

    return array


def _numbers(element: str, order: str) -> Decoder:
    unpack = struct.Struct(order + "I").unpack_from
    code = NUMBERS[element]
    size = struct.calcsize(order + code)

    def numbers(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        at, end = _span(data, at, unpack, size - 1)
        count, rest = divmod(end - at, size)
        if rest:
            raise FormatError("an array whose elements don't fill it")
        if element == "y":
            return data[at:end], end
        return struct.unpack_from(f"{order}{count}{code}", data, at), end

    return numbers


def _dictionary(entry: str, order: str) -> Decoder:
    unpack = struct.Struct(order + "I").unpack_from
    inner = _members(entry, order)

    def dictionary(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        at, end = _span(data, at, unpack, 7)
        values = {}
        while at < end:
            (key, value), at = inner(data, (at + 7) & ~7, depth)
            values[key] = value
        if at != end:
            raise FormatError("a dictionary whose entries don't fill it")
        return values, end

    return dictionary
