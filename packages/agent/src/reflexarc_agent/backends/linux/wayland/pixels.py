"""Pixels as compositors write them, made upright and into blue, green, red and one unused byte.

Source: drm_fourcc.h (the layouts), wayland.xml, "wl_shm.format", "wl_output.transform".
"""

from __future__ import annotations

from array import array
from typing import Dict, NamedTuple, Tuple

from reflexarc_agent.backends.linux.pictures import Picture
from reflexarc_agent.backends.linux.wayland.errors import WaylandError


class Layout(NamedTuple):
    """Bytes a pixel, and by how many bits blue, green and red are shifted; of ten bits the upper eight are meant."""

    bytes: int
    blue: int
    green: int
    red: int


def _fourcc(name: str) -> int:
    return int.from_bytes(name.encode(), "little")


LAYOUTS: Dict[int, Layout] = {
    1: Layout(4, 0, 8, 16),
    0: Layout(4, 0, 8, 16),
    **{_fourcc(name): Layout(4, 16, 8, 0) for name in ("XB24", "AB24")},
    **{_fourcc(name): Layout(4, 8, 16, 24) for name in ("RX24", "RA24")},
    **{_fourcc(name): Layout(4, 24, 16, 8) for name in ("BX24", "BA24")},
    **{_fourcc(name): Layout(4, 2, 12, 22) for name in ("XR30", "AR30")},
    **{_fourcc(name): Layout(4, 22, 12, 2) for name in ("XB30", "AB30")},
    _fourcc("RG24"): Layout(3, 0, 8, 16),
    _fourcc("BG24"): Layout(3, 16, 8, 0),
}
"""The formats that can be read, by the number that wl_shm gives them; the first ones cost nothing."""

_TURNS: Dict[int, Tuple[bool, bool, bool]] = {
    0: (False, False, False),
    1: (True, True, False),
    2: (False, True, True),
    3: (True, False, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (False, False, True),
    7: (True, True, True),
}
"""How a picture is turned upright, by the transform of its output: transposed, then left to right, then upside down."""


def picture(data: bytes, width: int, height: int, stride: int, layout: Layout) -> Picture:
    """Rows of a buffer as a picture."""
    row = width * layout.bytes
    if stride != row:
        data = b"".join(data[at : at + row] for at in range(0, stride * height, stride))
    if layout == LAYOUTS[1]:
        return Picture(width, height, data)
    out = bytearray(width * height * 4)
    for channel, shift in enumerate((layout.blue, layout.green, layout.red)):
        out[channel::4] = _plane(data, shift, layout.bytes)
    return Picture(width, height, bytes(out))


def _plane(data: bytes, shift: int, step: int) -> bytes:
    """Eight bits of each pixel."""
    if shift % 8:
        data = (int.from_bytes(data, "little") >> shift % 8).to_bytes(len(data), "little")
    return data[shift // 8 :: step]


def upright(taken: Picture, transform: int, upside_down: bool = False) -> Picture:
    """A picture of an output's buffer as it is seen; raises WaylandError where there is no such transform."""
    if transform not in _TURNS:
        raise WaylandError(f"the compositor told a transform {transform} that isn't known")
    turned, mirrored, flipped = _TURNS[transform]
    if upside_down:
        taken = Picture(taken.width, taken.height, _rows(taken, False, True))
    if turned:
        taken = _transposed(taken)
    return Picture(taken.width, taken.height, _rows(taken, mirrored, flipped))


def _transposed(taken: Picture) -> Picture:
    pixels = array("I", taken.bgrx)
    columns = (pixels[at :: taken.width] for at in range(taken.width))
    return Picture(taken.height, taken.width, b"".join(column.tobytes() for column in columns))


def _rows(taken: Picture, mirrored: bool, flipped: bool) -> bytes:
    """The picture's bytes, its rows from right to left where `mirrored`, from the bottom up where `flipped`."""
    if not mirrored and not flipped:
        return taken.bgrx
    pixels = array("I", taken.bgrx)
    if mirrored and flipped:
        return pixels[::-1].tobytes()
    starts = range(0, len(pixels), taken.width)
    if mirrored:
        return b"".join(pixels[at : at + taken.width][::-1].tobytes() for at in starts)
    return b"".join(pixels[at : at + taken.width].tobytes() for at in reversed(starts))
