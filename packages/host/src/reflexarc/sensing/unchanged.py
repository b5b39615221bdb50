"""The unchanged rung: the picture is that of the frame classified last, but for a blinking cursor."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.machine.geometry import Rect
from reflexarc.observation import CONFIDENT, UNKNOWN, Observation
from reflexarc.sensing.verdict import Answer

MAX_CURSOR = Rect(0, 0, 16, 32)
_CARET_WIDTH = 3


class CellGrid(Protocol):
    """Where the character cells of the screen lie."""

    def cell_at(self, x: int, y: int) -> Rect | None: ...


class Stillness:
    """Tells whether the picture stands still, from frames of one screen in their order.

    A cursor may blink in one cell without that counting as change; a cursor that moves, and a character that
    appears where the cursor was, do count.
    """

    def __init__(self, grid: CellGrid) -> None:
        self._grid = grid
        self._frame: Frame | None = None
        self._cursor: Rect | None = None
        self.changed_at = 0.0

    def see(self, frame: Frame) -> bool:
        """Take in a frame; True where it shows what the one before did."""
        if self._frame is not None and self._same(self._frame.pixels, frame.pixels):
            return True
        self._frame = frame
        self._cursor = None
        self.changed_at = frame.captured
        return False

    def cursor_is_in(self, cell: Rect | None) -> None:
        """Say where the cursor was found on the frame seen last."""
        self._cursor = cell or self._cursor

    def forget(self) -> None:
        """The next frame counts as changed, whatever it shows."""
        self._frame = None

    def _same(self, before: Pixels, after: Pixels) -> bool:
        if before is after:
            return True
        if before.shape != after.shape:
            return False
        box = changed_box(before, after)
        if box is None:
            return True
        place = self._cursor or self._grid.cell_at(box.x, box.y) or box
        if not _within(box, place) or not blinks(before, after, box, place):
            return False
        self._cursor = place
        return True


def read_unchanged(earlier: Observation | None) -> Answer | None:
    """The earlier phase again, where it was known and sure enough."""
    if earlier is None or earlier.phase == UNKNOWN or earlier.confidence < CONFIDENT:
        return None
    return Answer(earlier.phase, earlier.confidence, "unchanged", earlier.complete, earlier.screen)


def changed_box(before: Pixels, after: Pixels) -> Rect | None:
    """The smallest rectangle that holds every changed pixel; both pictures have one size."""
    differs = before != after
    rows = np.flatnonzero(differs.any(axis=1))
    if not len(rows):
        return None
    top, bottom = int(rows[0]), int(rows[-1])
    columns = np.flatnonzero(differs[top : bottom + 1].any(axis=0))
    left, right = int(columns[0]), int(columns[-1])
    return Rect(left, top, right - left + 1, bottom - top + 1)


def blinks(before: Pixels, after: Pixels, box: Rect, cell: Rect) -> bool:
    """Tell whether a change inside one cell is a cursor that appears or goes: underline, block or caret."""
    if box.width > MAX_CURSOR.width or box.height > MAX_CURSOR.height:
        return False
    old, new = (picture[box.y : box.y + box.height, box.x : box.x + box.width] for picture in (before, after))
    if box.width <= _CARET_WIDTH:
        return box.height >= 8 and _uniform(old) and _uniform(new)
    if box.height >= max(8, cell.height // 2):
        return _swapped(old, new)
    rows = slice(box.y, box.y + box.height)
    glyph = slice(cell.x, cell.x + (8 if cell.width == 9 else cell.width))
    low = box.y - cell.y >= cell.height // 2 or cell == box
    thick = box.height >= 2 or cell.height < 10
    return low and thick and _underlines(before[rows, glyph], after[rows, glyph])


def _underlines(old: Pixels, new: Pixels) -> bool:
    """Tell whether all of an underline comes or goes: a `_` typed where it was leaves one of its rows as it is."""
    changed = np.count_nonzero(old != new, axis=1)
    return (_uniform(old) or _uniform(new)) and bool((changed >= old.shape[1] / 4).all())


def _within(box: Rect, cell: Rect) -> bool:
    return (
        cell.x <= box.x
        and cell.y <= box.y
        and box.x + box.width <= cell.x + cell.width
        and box.y + box.height <= cell.y + cell.height
    )


def _uniform(pixels: Pixels) -> bool:
    return bool((pixels == pixels[0, 0]).all())


def _swapped(old: Pixels, new: Pixels) -> bool:
    """Tell whether the two colours of a block changed places, or one colour became another throughout."""
    first, other = old[0, 0], new[0, 0]
    swapped = np.where(old == first, other, first)
    return bool((new == swapped).all() and ((old == first) | (old == other)).all())
