"""Where the character cells of a text console lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reflexarc.machine.geometry import Rect


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of one size from an origin in frame pixels; nine-pixel VGA cells hold eight-pixel glyphs."""

    cell_width: int
    cell_height: int
    x: int
    y: int
    columns: int
    rows: int

    @classmethod
    def over(cls, width: int, height: int, cell: tuple[int, int], x: int = 0, y: int = 0) -> Grid:
        """The cells that fit on a screen of that size when the first starts at (x, y)."""
        return cls(*cell, x, y, max(0, width - x) // cell[0], max(0, height - y) // cell[1])

    @property
    def glyph_width(self) -> int:
        return 8 if self.cell_width == 9 else self.cell_width

    def cell(self, row: int, column: int) -> Rect:
        """The pixels of one cell."""
        return Rect(
            self.x + column * self.cell_width,
            self.y + row * self.cell_height,
            self.cell_width,
            self.cell_height,
        )


# Text modes that the EFI console offers; it centres them. Source: EDK II, GraphicsConsoleDxe.
_EFI_MODES = ((80, 25), (80, 50), (100, 31), (128, 40), (160, 42), (240, 56))
# GRUB's graphical terminal keeps ten pixels off the edges.
_GRUB_BORDER = 10


def likely_grids(width: int, height: int) -> Iterator[Grid]:
    """The grids to expect on a screen of that size, the likeliest first, each once."""
    seen = set()
    for cell, x, y in _guesses(width, height):
        grid = Grid.over(width, height, cell, x, y)
        if grid not in seen and grid.columns >= 20 and grid.rows >= 4:
            seen.add(grid)
            yield grid


def _guesses(width: int, height: int) -> Iterator[tuple[tuple[int, int], int, int]]:
    if width % 9 == 0 and width < 1280:
        for cell_height in (16, 14, 8):
            yield (9, cell_height), 0, 0
    yield (8, 16), 0, 0
    for columns, rows in (*_EFI_MODES, (width // 8, height // 19)):
        if columns * 8 <= width and rows * 19 <= height:
            yield (8, 19), (width - columns * 8) // 2 % 8, (height - rows * 19) // 2 % 19
    yield (8, 16), _GRUB_BORDER, _GRUB_BORDER
    yield (16, 32), 0, 0
    for cell_height in (8, 14, 18):
        yield (8, cell_height), 0, 0
