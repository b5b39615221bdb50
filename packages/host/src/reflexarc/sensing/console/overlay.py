"""Reading text that is drawn over a picture, as the graphical menu of SYSLINUX does: by likeness to glyphs.

No cell has two colours there: the picture shines through, letters have shadows and are blended in. What a cell
shows is taken apart into a slope of light, a glyph and the glyph's shadow; a character is read where hardly
anything is left over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Pixels
from reflexarc.observation import ScreenText
from reflexarc.sensing.console.glyphs import Flags, font
from reflexarc.sensing.console.grid import Grid
from reflexarc.sensing.console.reader import resembles

Plane = npt.NDArray[np.float32]

# Source: SYSLINUX, com32/lib/sys/vesa: a border of eight pixels around the text, cells of the adapter's font.
_BORDER = 8
_CELL = (8, 16)
_FONT = "8x16-rom"
_SIZES = frozenset({(640, 480), (800, 600)})
# The first and last row of pixels hold the edges of a highlighting bar, and of no letter anything.
_INNER = slice(1, _CELL[1] - 1)
_LIKE = 0.85  # share of what is drawn in a cell that a glyph must explain
_DRAWN = 7.0  # standard deviation, in grey levels, from which something is drawn in a cell
_RULES = "─│┌┐└┘├┤"
_WORD = re.compile(r"[^\W\d_]{4}")
_ROWS = 2  # lines with words that make a menu
_BAR = 24.0  # grey levels by which the paper of a highlighted row differs from its neighbours
_MOSTLY = 0.8


@dataclass(frozen=True, eq=False)
class _Alphabet:
    """Glyphs as orthonormal vectors over the pixels of a cell: [pixels, glyphs] of the glyph and of its shadow."""

    codes: npt.NDArray[np.uint32]
    glyphs: Plane
    shadows: Plane
    slopes: Plane


@cache
def _alphabet() -> _Alphabet:
    y, x = np.mgrid[_INNER, 0 : _CELL[0]].reshape(2, -1).astype(np.float32)
    slopes = np.linalg.qr(np.stack([np.ones_like(x), x, y], axis=1))[0].astype(np.float32)
    known = {ord(c): bits for c, bits in font(_FONT).items() if "!" <= c <= "~" or c in _RULES}
    ink = np.stack(list(known.values())).astype(np.float32)
    shadow = np.zeros_like(ink)
    shadow[:, 1:, 1:] = ink[:, :-1, :-1]
    shadow *= 1 - ink
    glyphs, shadows = (_apart(each[:, _INNER].reshape(len(known), -1).T, slopes) for each in (ink, shadow))
    glyphs /= np.linalg.norm(glyphs, axis=0)
    shadows -= glyphs * (glyphs * shadows).sum(axis=0)
    shadows /= np.maximum(np.linalg.norm(shadows, axis=0), 1e-6)
    return _Alphabet(np.array(list(known), np.uint32), glyphs, shadows, slopes)


def _apart(vectors: Plane, basis: Plane) -> Plane:
    """Vectors [pixels, n] without what lies along a basis [pixels, m]."""
    return np.asarray(vectors - basis @ (basis.T @ vectors), np.float32)


class OverlayReader:
    """Reads the text over the pictures of one screen, frame by frame."""

    def __init__(self) -> None:
        self._pixels: Pixels | None = None
        self._text: ScreenText | None = None

    def read(self, pixels: Pixels) -> ScreenText | None:
        """The text over a picture; None where hardly any words are found, or the screen has no size of such menus."""
        before, self._pixels = self._pixels, pixels
        if before is not None and before.shape == pixels.shape:
            same = np.array_equal(before, pixels) if self._text else resembles(before, pixels)
            if same:
                self._pixels = before
                return self._text
        grid = _grid(pixels)
        self._text = _read(pixels, grid) if grid else None
        return self._text


def _grid(pixels: Pixels) -> Grid | None:
    """The cells of such a menu on a screen of this size, None where it can be none."""
    height, width = pixels.shape
    if (width, height) not in _SIZES:
        return None
    return Grid.over(width - _BORDER, height - _BORDER, _CELL, _BORDER, _BORDER)


def _read(pixels: Pixels, grid: Grid) -> ScreenText | None:
    found, drawn = _codes(_cells(pixels, grid))
    codes, drawn = found.reshape(grid.rows, -1), drawn.reshape(grid.rows, -1)
    lines = ["".join(map(chr, row)).rstrip() for row in codes.tolist()]
    lines = [line if _WORD.search(line) else "" for line in lines]
    spans = {row: slice(len(line) - len(line.lstrip()), len(line)) for row, line in enumerate(lines) if line}
    if len(spans) < _ROWS:
        return None
    shown = sum(len(line.replace(" ", "")) for line in lines)
    unread = sum(
        np.count_nonzero(drawn[row, span] & (codes[row, span] == ord(" "))) for row, span in spans.items()
    )
    confidence = shown / (shown + unread)
    if confidence < _MOSTLY:
        return None
    marked = tuple(
        (row, span.start, lines[row][span])
        for row, span in spans.items()
        if _stands_out(pixels, grid, row, span)
    )
    return ScreenText(tuple(lines), marked, columns=grid.columns, confidence=confidence)


def _cells(pixels: Pixels, grid: Grid) -> Plane:
    """The brightness of each cell's inner pixels [cells, pixels]."""
    width, height = _CELL
    cut = pixels[grid.y : grid.y + grid.rows * height, grid.x : grid.x + grid.columns * width]
    light = ((cut >> 16) & 0xFF) + ((cut >> 7) & 0x1FE) + (cut & 0xFF)
    inner = light.reshape(grid.rows, height, grid.columns, width)[:, _INNER].swapaxes(1, 2)
    return np.asarray(inner.reshape(grid.rows * grid.columns, -1), np.float32) * np.float32(0.25)


def _codes(cells: Plane) -> tuple[npt.NDArray[np.uint32], Flags]:
    """The code point of each cell, a blank where none is read; and whether anything is drawn there."""
    known = _alphabet()
    codes = np.full(len(cells), ord(" "), np.uint32)
    rest = _apart(cells.T, known.slopes)
    energy = np.square(rest).sum(axis=0)
    drawn = energy > _DRAWN**2 * len(rest)
    seen = rest[:, drawn]
    explained = np.square(known.glyphs.T @ seen) + np.square(known.shadows.T @ seen)
    if explained.size:
        best = explained.argmax(axis=0)
        like = explained[best, np.arange(len(best))] >= _LIKE * energy[drawn]
        codes[np.flatnonzero(drawn)[like]] = known.codes[best[like]]
    return codes, drawn


def _stands_out(pixels: Pixels, grid: Grid, row: int, span: slice) -> bool:
    """Tell whether the paper of a row differs from that of the rows above and below all along its text."""
    if not 0 < row < grid.rows - 1:
        return False
    above, here, below = (_papers(pixels, grid, at, span) for at in (row - 1, row, row + 1))
    apart = [np.abs(here - other).max(axis=1) for other in (above, below)]
    around = np.abs(above - below).max(axis=1)
    off = np.median(np.minimum(*apart))
    return bool(off >= _BAR and np.median(around) <= off / 2)


def _papers(pixels: Pixels, grid: Grid, row: int, span: slice) -> npt.NDArray[np.floating]:
    """The commonest light of each channel [cells, 3] in the cells of a row."""
    width, height = _CELL
    top, left = grid.y + row * height, grid.x + span.start * width
    cut = pixels[top : top + height, left : grid.x + span.stop * width]
    channels = np.stack([(cut >> shift) & 0xFF for shift in (16, 8, 0)]).astype(np.float32)
    return np.asarray(np.median(channels.reshape(3, height, -1, width), axis=(1, 3)).T)
