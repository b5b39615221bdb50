"""Needles: pictures looked for on a screen, by their bits in its middle or by their likeness in a region."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Pixels
from reflexarc.machine.geometry import Rect
from reflexarc.machine.patch import decode
from reflexarc.observation import LIKENESS

DIGEST_SIZE = 16
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)

Plane = npt.NDArray[np.float32]


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


@dataclass(frozen=True)
class Region:
    """Where to look: pixels from the top left, or from the right and bottom where x or y is negative."""

    x: int
    y: int
    width: int
    height: int

    def cut(self, pixels: Pixels) -> Pixels:
        """The part of a picture that lies in the region; empty where none does."""
        height, width = pixels.shape
        left, top = (at if at >= 0 else side + at for at, side in ((self.x, width), (self.y, height)))
        right, bottom = left + self.width, top + self.height
        return pixels[max(0, top) : max(0, bottom), max(0, left) : max(0, right)]


@dataclass(frozen=True, eq=False)
class Patch:
    """A picture that is recognised by its likeness, somewhere in a region (the whole screen where None).

    png: its file, known to be one that `machine.patch` decodes. threshold: the likeness it takes, from 0 to 1.
    """

    name: str
    png: bytes
    region: Region | None = None
    threshold: float = LIKENESS

    @cached_property
    def pixels(self) -> Pixels:
        return decode(self.png)

    def is_on(self, pixels: Pixels) -> bool:
        """Tell whether the picture is on a screen."""
        return bool(self.places(self.region.cut(pixels) if self.region else pixels, most=1))

    def places(self, window: Pixels, *, most: int) -> list[Rect]:
        """Where in a window the picture stands, the likeliest place first, none over another.

        A likeness is the correlation of brightness, times how near the mean colours are: 1 for the very picture,
        also under a weak change of light; text of another wording has 0.6 at most.
        """
        height, width = self.pixels.shape
        if window.shape[0] < height or window.shape[1] < width or (window == window[0, 0]).all():
            return []
        scores = _correlation(_luma(window), *self._pattern)
        found: list[Rect] = []
        while len(found) < most:
            y, x = map(int, np.unravel_index(int(scores.argmax()), scores.shape))
            there = window[y : y + height, x : x + width]
            off = np.abs(_mean_colour(there) - _mean_colour(self.pixels)).max() / 255
            if scores[y, x] * (1 - off) < self.threshold:
                break
            found.append(Rect(x, y, width, height))
            scores[max(0, y - height + 1) : y + height, max(0, x - width + 1) : x + width] = 0.0
        return found

    @cached_property
    def _pattern(self) -> tuple[Plane, float]:
        """The brightness of the picture about its mean, and the root of the sum of its squares."""
        plane = _luma(self.pixels)
        plane -= plane.mean()
        return plane, float(np.sqrt(np.square(plane, dtype=np.float64).sum()))


def _channels(pixels: Pixels) -> Plane:
    return np.stack([(pixels >> shift) & 0xFF for shift in (16, 8, 0)], axis=-1).astype(np.float32)


def _luma(pixels: Pixels) -> Plane:
    return np.asarray(_channels(pixels) @ _LUMA, np.float32)


def _mean_colour(pixels: Pixels) -> Plane:
    return np.asarray(_channels(pixels).mean(axis=(0, 1)), np.float32)


def _correlation(plane: Plane, pattern: Plane, norm: float) -> npt.NDArray[np.float64]:
    """The normalised correlation of a pattern, whose mean is 0, with each place of a plane."""
    height, width = pattern.shape
    rows, columns = plane.shape[0] - height + 1, plane.shape[1] - width + 1
    shape = tuple(_smooth(side) for side in plane.shape)
    centred = plane - plane.mean()
    spectrum = np.fft.rfft2(centred, shape) * np.conj(np.fft.rfft2(pattern, shape))
    products = np.fft.irfft2(spectrum, shape)[:rows, :columns]
    wide = centred.astype(np.float64)
    sums, squares = (_box_sums(each, height, width) for each in (wide, wide * wide))
    spread = squares - sums * sums / pattern.size
    # Below a grey level of variance a pixel nothing is drawn, and the correlation would be that of noise.
    drawn = spread > pattern.size
    return np.where(drawn, products / (norm * np.sqrt(np.where(drawn, spread, 1.0))), 0.0)


def _box_sums(values: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.float64]:
    """The sum over each box of that size."""
    total = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    np.cumsum(np.cumsum(values, axis=0), axis=1, out=total[1:, 1:])
    return (
        total[height:, width:] - total[:-height, width:] - total[height:, :-width] + total[:-height, :-width]
    )


def _smooth(length: int) -> int:
    """The next length whose Fourier transform is quick: one without prime factors above 5."""
    while True:
        rest = length
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return length
        length += 1


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
