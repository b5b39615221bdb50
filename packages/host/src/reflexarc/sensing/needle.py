"""Needles: pictures known bit by bit, such as the logo of a firmware, in the middle of the screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from reflexarc.machine.frame import Pixels
from reflexarc.machine.geometry import Rect

DIGEST_SIZE = 16


@dataclass(frozen=True, slots=True)
class Needle:
    """A picture of some size; `digest` is that of its pixels, see `digest`."""

    name: str
    width: int
    height: int
    digest: str

    def find(self, pixels: Pixels) -> Rect | None:
        """Where the picture stands, None where it doesn't."""
        place = middle(pixels, self.width, self.height)
        return place if place and digest(pixels, place) == self.digest else None


def middle(pixels: Pixels, width: int, height: int) -> Rect | None:
    """The rectangle of that size in the middle, odd margins rounded down; None where it does not fit."""
    place = Rect((pixels.shape[1] - width) // 2, (pixels.shape[0] - height) // 2, width, height)
    return place if place.inside(pixels.shape[1], pixels.shape[0]) else None


def digest(pixels: Pixels, place: Rect) -> str:
    """BLAKE2b with 16 bytes, in hexadecimal, of the pixels in row order, each 0x00RRGGBB little-endian."""
    cut = pixels[place.y : place.y + place.height, place.x : place.x + place.width]
    return blake2b(np.ascontiguousarray(cut, "<u4").tobytes(), digest_size=DIGEST_SIZE).hexdigest()


def without(pixels: Pixels, places: Iterable[Rect]) -> Pixels:
    """A copy in which rectangles are painted over with what lies at the left of their top-left corner."""
    painted = pixels.copy()
    for place in places:
        paper = pixels[place.y, max(0, place.x - 1)]
        painted[place.y : place.y + place.height, place.x : place.x + place.width] = paper
    return painted


def is_alone(painted: Pixels) -> bool:
    """Tell whether nothing is drawn but for the needles, painted over here, and in the lowest tenth.

    Firmware shows there how far it is.
    """
    upper = painted[: painted.shape[0] * 9 // 10]
    return bool((upper == upper[:1, :1]).all())
