"""The reader of text consoles, which remembers what it read and reads again only what changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.machine.geometry import Rect
from reflexarc.observation import ScreenText
from reflexarc.sensing.console import attributes, shapes, wide
from reflexarc.sensing.console.cells import Rows, cut
from reflexarc.sensing.console.detect import ENOUGH, Layout, detect, margins_are_plain, text_share
from reflexarc.sensing.console.glyphs import (
    FIRST_SYMBOL,
    REPLACEMENT,
    Codes,
    GlyphTable,
    Words,
    glyph_table,
    prepare,
)

MAX_PIXELS = 16_000_000
_LOW = 8  # height of cells in which an underline cursor looks like an underscore
_BLANK = 0x20
_NOTHING = chr(wide.CONTINUATION)
_MAX_PUZZLES = 64  # distinct cells, beyond the fonts, that are looked at closely in one reading
_SUBSTANTIAL = 0.02  # of what is drawn on a rejected picture, the share that must change for another look


@dataclass(frozen=True, eq=False)
class _Reading:
    """What was read, by cell [rows, columns]; inked cells not read have code REPLACEMENT."""

    codes: Codes
    paper: Pixels
    ink: Pixels
    underlined: npt.NDArray[np.bool_]
    lines: list[str]

    def put(self, rows: Rows, part: _Reading) -> None:
        """Put the rows of another reading in the place of some of these."""
        self.codes[rows] = part.codes
        self.paper[rows] = part.paper
        self.ink[rows] = part.ink
        self.underlined[rows] = part.underlined
        for row, line in zip(rows.tolist(), part.lines, strict=True):
            self.lines[row] = line

    def count(self) -> tuple[int, int, int]:
        """How many cells are inked, how many of these are symbols, and how many were not read."""
        inked = self.codes.size - int(np.count_nonzero(self.codes == _BLANK))
        unread = int(np.count_nonzero(self.codes == REPLACEMENT))
        return inked, int(np.count_nonzero(self.codes >= FIRST_SYMBOL)) - unread, unread


class ConsoleReader:
    """Reads the characters of text consoles exactly, from frames of one screen in their order.

    A character that takes two cells is one character of its line: the columns after it count cells.
    """

    def __init__(self) -> None:
        prepare()
        self._layouts: dict[tuple[int, ...], Layout] = {}
        self._layout: Layout | None = None
        self._pixels: Pixels | None = None
        self._reading: _Reading | None = None
        self._text: ScreenText | None = None

    @property
    def layout(self) -> Layout | None:
        """Where the cells of the screen read last lie, None when that was no text console."""
        return self._layout

    def cell(self, row: int, column: int) -> Rect | None:
        """Pixels of a cell of the screen read last, None when that was no text console."""
        return self._layout.grid.cell(row, column) if self._layout else None

    def cell_at(self, x: int, y: int) -> Rect | None:
        """Pixels of the cell in which a pixel lies, None outside of the cells and where there are none."""
        if self._layout is None:
            return None
        grid = self._layout.grid
        column, row = (x - grid.x) // grid.cell_width, (y - grid.y) // grid.cell_height
        return grid.cell(row, column) if 0 <= row < grid.rows and 0 <= column < grid.columns else None

    def read(self, frame: Frame) -> ScreenText | None:
        """The text on a frame; None when this is not a text console, or is larger than 16 megapixels."""
        pixels = frame.pixels
        if pixels.size > MAX_PIXELS or min(pixels.shape) < 8:
            self._forget()
            return None
        if self._pixels is not None and self._pixels.shape == pixels.shape and self._again(pixels):
            return self._text
        self._read_all(pixels)
        return self._text

    def _forget(self) -> None:
        self._layout = self._pixels = self._reading = self._text = None

    def _again(self, pixels: Pixels) -> bool:
        """Bring what was read up to date with the frame; False where it must be read anew."""
        before = self._pixels
        assert before is not None
        if self._layout is None or self._reading is None:
            return resembles(before, pixels)
        grid = self._layout.grid
        changed = (before != pixels).any(axis=1)
        inside = slice(grid.y, grid.y + grid.rows * grid.cell_height)
        rows = np.flatnonzero(changed[inside].reshape(grid.rows, -1).any(axis=1))
        if len(rows) > grid.rows // 2 or np.count_nonzero(changed) > np.count_nonzero(changed[inside]):
            return False
        self._pixels = pixels
        if not len(rows):
            return True
        self._reading.put(rows, _read_cells(pixels, self._layout, rows))
        return self._conclude(self._reading)

    def _read_all(self, pixels: Pixels) -> None:
        known = self._layouts.get(pixels.shape)
        self._pixels = pixels
        if known and margins_are_plain(pixels, known.grid) and self._accept(pixels, known):
            return
        found = detect(pixels)
        if found and self._accept(pixels, found):
            self._layouts[pixels.shape] = found
            return
        self._layout = self._reading = self._text = None

    def _accept(self, pixels: Pixels, layout: Layout) -> bool:
        self._layout = layout
        self._reading = _read_cells(pixels, layout)
        return self._conclude(self._reading)

    def _conclude(self, reading: _Reading) -> bool:
        """Make the text of what was read; False where too little of it is characters."""
        inked, symbols, unread = reading.count()
        if inked and text_share(inked, symbols, unread) < ENOUGH:
            return False
        confidence = 1 - unread / inked if inked else 1.0
        self._text = _screen_text(reading, confidence)
        if self._layout and self._layout.grid.cell_height <= _LOW and self._text.cursor is None:
            self._text = _without_low_cursor(self._text)
        return True


def resembles(before: Pixels, pixels: Pixels) -> bool:
    """Tell whether so little changed on a picture that was rejected that it need not be looked at again."""
    sample = before[::4, ::4]
    drawn = np.count_nonzero(sample != sample[-1, -1])
    return bool(np.count_nonzero(sample != pixels[::4, ::4]) <= _SUBSTANTIAL * drawn)


def _read_cells(pixels: Pixels, layout: Layout, rows: Rows | None = None) -> _Reading:
    cells = cut(pixels, layout.grid, rows)
    table = glyph_table(layout.font)
    inked = cells.paper != cells.ink
    found, inverted = table.find(cells.words[inked])
    found[~cells.plain[inked]] = 0
    codes = np.full(inked.shape, _BLANK, np.uint32)
    codes[inked] = np.where(found > 0, found, REPLACEMENT)
    if (layout.grid.glyph_width, layout.grid.cell_height) == (8, 16):
        wide.join(cells, codes)
    paper, ink = cells.paper, cells.ink
    if inverted.any():
        swap = np.zeros(inked.shape, np.bool_)
        swap[inked] = inverted
        paper, ink = np.where(swap, ink, paper), np.where(swap, paper, ink)
    reading = _Reading(codes, paper, ink, np.zeros(inked.shape, np.bool_), [])
    puzzling = cells.plain & _odd(codes)
    if puzzling.any():
        _solve(reading, cells.words, puzzling, (layout.grid.cell_height, layout.grid.glyph_width), table)
    lines = codes.view(f"<U{codes.shape[1]}").ravel().tolist()
    reading.lines.extend(line.rstrip(" ").replace(_NOTHING, "") for line in lines)
    return reading


def _odd(codes: Codes) -> npt.NDArray[np.bool_]:
    """Cells not read, or read as a symbol that an underline cursor may look like (low blocks, scan lines)."""
    symbol = (codes >= FIRST_SYMBOL) & (codes < 0x3000) & ((codes < 0x2500) | (codes >= 0x2580))
    return np.asarray(symbol | (codes == REPLACEMENT), np.bool_)


def _solve(
    reading: _Reading,
    words: Words,
    puzzling: npt.NDArray[np.bool_],
    size: tuple[int, int],
    table: GlyphTable,
) -> None:
    """Look closely at cells that no glyph explains: rules and characters under an underline cursor."""
    places = np.argwhere(puzzling)
    kinds, which = np.unique(words[puzzling], axis=0, return_inverse=True)
    for kind, word in enumerate(kinds[:_MAX_PUZZLES]):
        octets = word.view(np.uint8)[: size[0] * size[1] // 8]
        bits = np.unpackbits(octets).astype(np.bool_).reshape(size)
        rows, columns = places[which.ravel() == kind].T
        alone = len(rows) == 1
        unread = reading.codes[rows[0], columns[0]] == REPLACEMENT
        character = shapes.under_cursor(bits, table if unread else None) if alone else ""
        if character:
            reading.underlined[rows, columns] = True
            # A field of underscores goes on under the cursor, which hides the one in its cell.
            character = (
                "_" if character == " " and _is_underscore(reading.codes, rows, columns + 1) else character
            )
        elif unread:
            character = shapes.rule(bits)
        if character:
            reading.codes[rows, columns] = ord(character)


def _is_underscore(codes: Codes, rows: Rows, columns: Rows) -> bool:
    """Tell whether the first of some cells holds an underscore; False beyond the last column."""
    return bool(columns[0] < codes.shape[1] and codes[rows[0], columns[0]] == ord("_"))


def _screen_text(reading: _Reading, confidence: float) -> ScreenText:
    cursor = _cursor(reading)
    marked = attributes.reverse_video(reading.paper, reading.ink)
    if cursor:
        marked[cursor] = False
    return ScreenText(
        lines=tuple(reading.lines),
        highlighted=tuple(attributes.runs(marked, reading.paper, reading.codes)),
        cursor=cursor,
        columns=reading.codes.shape[1],
        confidence=confidence,
    )


def _cursor(reading: _Reading) -> tuple[int, int] | None:
    if reading.underlined.any():
        underlined = np.argwhere(reading.underlined)
        return (int(underlined[0, 0]), int(underlined[0, 1])) if len(underlined) == 1 else None
    return attributes.block_cursor(reading.paper, reading.ink)


def _without_low_cursor(screen: ScreenText) -> ScreenText:
    """The text with an underscore taken for the cursor: the only one, after a blank at the end of the text.

    In cells this low an underline cursor has the one row of pixels that an underscore has.
    """
    rows = [row for row, line in enumerate(screen.lines) if line]
    if not rows or screen.text.count("_") != 1 or not f" {screen.lines[rows[-1]]}".endswith(" _"):
        return screen
    row = rows[-1]
    column = len(screen.lines[row]) - 1
    lines = (*screen.lines[:row], screen.lines[row][:-1].rstrip(), *screen.lines[row + 1 :])
    return replace(screen, lines=lines, cursor=(row, column))
