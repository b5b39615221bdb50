"""Animated WebP files, put together of stills that are encoded already, and taken apart again.

Source: the WebP container specification (RIFF, VP8X, ANIM and ANMF chunks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_STILLS = 10_000
LONGEST = 0xFFFFFF / 1000
_ANIMATED, _REPLACED, _CLEARED = 0x02, 0x02, 0x01
_BITSTREAMS = (b"VP8 ", b"VP8L")


@dataclass(frozen=True)
class Still:
    """One picture of an animation. bitstream: the chunk of a WebP file that holds it. seconds: how long it shows."""

    bitstream: bytes
    width: int
    height: int
    seconds: float


def bitstream_of(file: bytes) -> bytes:
    """The chunk that holds the picture of a simple WebP file; raises ValueError for any other file."""
    if file[:4] != b"RIFF" or file[8:12] != b"WEBP" or file[12:16] not in _BITSTREAMS:
        raise ValueError("not a simple WebP file")
    return file[12:]


def animation(stills: Sequence[Still]) -> bytes:
    """The file of an animation that plays once; its canvas holds the largest still, a smaller one is in its middle."""
    width = max(still.width for still in stills)
    height = max(still.height for still in stills)
    size = _number(width - 1, 3) + _number(height - 1, 3)
    chunks = [
        _chunk(b"VP8X", bytes([_ANIMATED, 0, 0, 0]) + size),
        _chunk(b"ANIM", bytes([0, 0, 0, 255]) + _number(1, 2)),
    ]
    for still, following in zip(stills, [*stills[1:], None], strict=True):
        changes = following is not None and (following.width, following.height) != (still.width, still.height)
        chunks.append(_chunk(b"ANMF", _frame(still, width, height, cleared=changes)))
    return _chunk(b"RIFF", b"WEBP" + b"".join(chunks))


def stills_of(file: bytes) -> list[Still]:
    """The stills of a file that `animation` made; raises ValueError for any other."""
    if file[:4] != b"RIFF" or file[8:12] != b"WEBP":
        raise ValueError("not a WebP file")
    stills = [_still(body) for name, body in _chunks(file[12:]) if name == b"ANMF"]
    if not 0 < len(stills) <= MAX_STILLS:
        raise ValueError("not an animation of that many stills")
    return stills


def _frame(still: Still, width: int, height: int, *, cleared: bool) -> bytes:
    # Offsets are counted in pairs of pixels.
    x, y = (width - still.width) // 4, (height - still.height) // 4
    milliseconds = round(min(still.seconds, LONGEST) * 1000)
    numbers = (x, y, still.width - 1, still.height - 1, milliseconds)
    flags = _REPLACED | (_CLEARED if cleared else 0)
    return b"".join(_number(number, 3) for number in numbers) + bytes([flags]) + still.bitstream


def _still(body: bytes) -> Still:
    width, height, milliseconds = (int.from_bytes(body[at : at + 3], "little") for at in (6, 9, 12))
    if body[16:20] not in _BITSTREAMS:
        raise ValueError("not a still that was written here")
    return Still(body[16:], width + 1, height + 1, milliseconds / 1000)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 8 <= len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        body = data[at + 8 : at + 8 + length]
        if len(body) < length:
            raise ValueError("the file is cut short")
        yield data[at : at + 4], body
        at += 8 + length + length % 2


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + _number(len(body), 4) + body + b"\0" * (len(body) % 2)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")
