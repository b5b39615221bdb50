"""Pictures of a screen, as PNG by the standard library, as JPEG where libturbojpeg is installed.

Source: PNG specification (W3C), "Datastream structure"; the TurboJPEG C API.
"""

from __future__ import annotations

import ctypes
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Optional

from reflexarc_agent.backends.linux.errors import DisplayError

PIXELS = 64_000_000
"""A larger picture is taken of nothing."""

TRUECOLOUR = 2
TURBO = ("libturbojpeg.so.0", "libturbojpeg.so.1", "libturbojpeg.so")
BGRX, CHROMA_444, CHROMA_420 = 3, 0, 2


@dataclass(frozen=True)
class Picture:
    """Rows of 4 bytes a pixel, blue, green, red and one unused, without gaps."""

    width: int
    height: int
    bgrx: bytes


@dataclass(frozen=True)
class Area:
    """A rectangle of pixels."""

    x: int
    y: int
    w: int
    h: int


class Points(NamedTuple):
    """A rectangle of points."""

    x: float
    y: float
    w: float
    h: float


class Shot(NamedTuple):
    """A picture, and how many of its pixels a point has."""

    picture: Picture
    scale: float


def within(area: Optional[Area], width: int, height: int) -> Area:
    """The part of an area that is in a picture of that size; raises DisplayError where none is."""
    if area is None:
        return Area(0, 0, width, height)
    left, top = max(0, area.x), max(0, area.y)
    right, bottom = min(width, area.x + area.w), min(height, area.y + area.h)
    if right <= left or bottom <= top:
        raise DisplayError(f"the area {area.w}x{area.h} at {area.x},{area.y} is outside of {width}x{height}")
    return Area(left, top, right - left, bottom - top)


def cropped(picture: Picture, area: Area) -> Picture:
    """The part of a picture in an area that is within it."""
    if (area.w, area.h) == (picture.width, picture.height):
        return picture
    stride, first = picture.width * 4, area.y * picture.width * 4 + area.x * 4
    starts = range(first, first + area.h * stride, stride)
    return Picture(area.w, area.h, b"".join(picture.bgrx[at : at + area.w * 4] for at in starts))


def png(picture: Picture, level: int = 1) -> bytes:
    """Encode as PNG, 3 bytes a pixel."""
    rgb = bytearray(picture.width * picture.height * 3)
    for channel, offset in enumerate((2, 1, 0)):
        rgb[channel::3] = picture.bgrx[offset::4]
    row = picture.width * 3
    lines = b"".join(b"\0" + rgb[at : at + row] for at in range(0, len(rgb), row))
    head = struct.pack(">IIBBBBB", picture.width, picture.height, 8, TRUECOLOUR, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, level)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(picture: Picture, quality: int = 80) -> Optional[bytes]:
    """Encode as JPEG; None where no library here can."""
    turbo = _turbo()
    if turbo is None:
        return None
    out, size = ctypes.c_void_p(), ctypes.c_ulong()
    coder = turbo.tjInitCompress()
    try:
        failed = turbo.tjCompress2(
            *(coder, picture.bgrx, picture.width, picture.width * 4, picture.height, BGRX),
            *(ctypes.byref(out), ctypes.byref(size), CHROMA_444 if quality > 90 else CHROMA_420),
            *(max(1, min(quality, 100)), 0),
        )
        return None if failed else ctypes.string_at(out.value or 0, size.value)
    finally:
        turbo.tjFree(out)
        turbo.tjDestroy(coder)


@lru_cache(maxsize=None)
def _turbo() -> Any:
    for name in TURBO:
        try:
            turbo = ctypes.CDLL(name)
        except OSError:
            continue
        number, pointer = ctypes.c_int, ctypes.c_void_p
        turbo.tjInitCompress.restype = pointer
        turbo.tjCompress2.argtypes = (
            *(pointer, ctypes.c_char_p, number, number, number, number),
            *(ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_ulong), number, number, number),
        )
        turbo.tjFree.argtypes = turbo.tjDestroy.argtypes = (pointer,)
        return turbo
    return None
