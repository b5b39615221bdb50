"""Reading the title of a page of the graphical Debian installer: black letters of one font on plain paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Pixels
from reflexarc.observation import ScreenText

Plane = npt.NDArray[np.float32]

# Rows of pixels between the banner and the frame of the page.
_BAND = slice(60, 130)
_MARGIN = 40  # the title begins left of this column
_MIN_WIDTH, _MIN_HEIGHT = 640, 480
_EMPTY = 2  # rows of paper above and below
_STRANGE = 0.3  # of a letter's ink, the difference above which it is another letter
_SLACK = (0, -1, 1)  # pixels by which kerning moves a letter
_FAINT = 0.08
_SPACE = 4
_LETTERS = 4


@dataclass(frozen=True, eq=False)
class _Font:
    """Letters [n, rows, columns] as shares of ink from 0 to 1, each with its pen at column `pen`."""

    codes: npt.NDArray[np.uint32]
    advances: npt.NDArray[np.intp]
    shapes: Plane
    inside: npt.NDArray[np.bool_]
    first: npt.NDArray[np.intp]
    pen: int

    def likest(self, windows: Plane) -> tuple[int, int, float]:
        """The window [w, rows, columns] and the letter that are likest, and how much they differ."""
        off = np.abs(windows[:, None] - self.shapes) * self.inside[:, None, :]
        strange = off.sum(axis=(2, 3)) / self.shapes.sum(axis=(1, 2))
        window, letter = divmod(int(strange.argmin()), len(self.codes))
        return window, letter, float(strange[window, letter])


@cache
def _font() -> _Font:
    with files(__package__).joinpath("title.npz").open("rb") as file, np.load(file) as table:
        shapes = table["shapes"].astype(np.float32) / 255
        codes, advances = table["codes"].astype(np.uint32), table["advances"].astype(np.intp)
        pen = int(table["pen"])
    columns = np.arange(shapes.shape[2])
    inside = (columns >= pen - 1) & (columns < pen + advances[:, None])
    first = (shapes.max(axis=1) > _FAINT).argmax(axis=1)
    return _Font(codes, advances, shapes, inside, first, pen)


class TitleReader:
    """Reads the titles of one screen, frame by frame; remembers the last one."""

    def __init__(self) -> None:
        self._strip: Pixels | None = None
        self._text: ScreenText | None = None

    def read(self, pixels: Pixels) -> ScreenText | None:
        """The title alone, as one line; None where none is found or a letter isn't known."""
        if pixels.shape[0] < _MIN_HEIGHT or pixels.shape[1] < _MIN_WIDTH:
            return None
        strip = pixels[_BAND]
        if self._strip is None or not np.array_equal(self._strip, strip):
            self._strip = strip
            line = _line(strip)
            text = _spell(line) if line is not None else ""
            is_title = sum(character.isalpha() for character in text) >= _LETTERS
            self._text = ScreenText((text,)) if is_title else None
        return self._text


def _line(strip: Pixels) -> Plane | None:
    """The first line of writing in a strip of the screen, as shares of ink [rows, columns]."""
    plain = (strip == strip[:, :1]).all(axis=1)
    turns = [0, *(np.flatnonzero(np.diff(plain)) + 1).tolist(), len(plain)]
    blocks = list(pairwise(turns))
    for before, (top, bottom), after in zip(blocks, blocks[1:], blocks[2:], strict=False):
        high_enough = 7 <= bottom - top <= _font().shapes.shape[1]
        on_paper = all(end - start >= _EMPTY for start, end in (before, after))
        if plain[top] or not high_enough or not on_paper:
            continue
        paper = strip[before[1] - 1, 0]
        if strip[after[0], 0] == paper:
            return _ink(strip[top:bottom], paper)
    return None


def _ink(rows: Pixels, paper: np.uint32) -> Plane | None:
    """Shares of ink; None where the writing doesn't begin at the left margin."""
    light = ((rows >> 16) & 0xFF) + ((rows >> 7) & 0x1FE) + (rows & 0xFF)
    off = np.abs(
        light.astype(np.float32) - float((paper >> 16 & 0xFF) + (paper >> 7 & 0x1FE) + (paper & 0xFF))
    )
    shares = off / off.max() if off.any() else off
    inked = np.flatnonzero((shares > _FAINT).any(axis=0))
    return shares if len(inked) and inked[0] < _MARGIN else None


def _spell(line: Plane) -> str:
    """Letter by letter from the left; empty where one isn't known."""
    font = _font()
    height, width = font.shapes.shape[1:]
    inked = np.flatnonzero((line > _FAINT).any(axis=0))
    sheet = np.zeros((2 * height + len(line), line.shape[1] + 4 * width), np.float32)
    sheet[height : height + len(line), 2 * width : 2 * width + line.shape[1]] = line
    start, end = 2 * width + int(inked[0]), 2 * width + int(inked[-1])
    top, pen = _begin(sheet, start)
    text: list[str] = []
    while pen <= end:
        if not (sheet[:, pen : pen + _SPACE] > _FAINT).any():
            text.append(" ")
            pen += _SPACE
            continue
        windows = np.stack([sheet[top : top + height, _columns(pen + slack)] for slack in _SLACK])
        window, letter, strange = font.likest(windows)
        if strange > _STRANGE:
            return ""
        text.append(chr(font.codes[letter]))
        pen += _SLACK[window]
        # A letter may hang over into the next one's columns.
        taken = sheet[top : top + height, _columns(pen)]
        np.maximum(taken - font.shapes[letter], 0, out=taken)
        pen += int(font.advances[letter])
    return "".join(text).strip()


def _columns(pen: int) -> slice:
    font = _font()
    return slice(pen - font.pen, pen - font.pen + font.shapes.shape[2])


def _begin(sheet: Plane, start: int) -> tuple[int, int]:
    """The row of the sheet at which the letters begin, and the pen's place, by the likest first letter."""
    font = _font()
    height = font.shapes.shape[1]
    best = (float("inf"), 0, start)
    for first in np.unique(font.first).tolist():
        pen = start - first + font.pen
        windows = np.stack(
            [sheet[top : top + height, _columns(pen)] for top in range(height - 6, height + 1)]
        )
        window, _, strange = font.likest(windows)
        best = min(best, (strange, height - 6 + window, pen))
    return best[1], best[2]
