"""From pixels to cells: which two colours each has, and the bits of what is drawn in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Pixels
from reflexarc.sensing.console.glyphs import Flags, Words, packed
from reflexarc.sensing.console.grid import Grid

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells [rows, columns] of a grid, the top-left pixel of each taken for its paper.

    ink equals paper where a cell is blank; it is one of several where `plain` is False.
    words: uint64 [rows, columns, n], the bits of what is drawn.
    """

    paper: Pixels
    ink: Pixels
    plain: Flags
    words: Words


def cut(pixels: Pixels, grid: Grid, rows: Rows | None = None) -> Cells:
    """Cut the pixels of a frame, or some rows of its cells, into cells."""
    height, width = grid.cell_height, grid.glyph_width
    drawn = pixels[
        grid.y : grid.y + grid.rows * height, grid.x : grid.x + grid.columns * grid.cell_width
    ].reshape(grid.rows, height, -1)
    if rows is not None:
        drawn = drawn[rows]
    if width != grid.cell_width:
        cells = drawn.reshape(len(drawn), height, grid.columns, grid.cell_width)
        drawn = cells[..., :width].reshape(len(drawn), height, -1)
    paper = np.ascontiguousarray(drawn[:, 0, ::width])
    difference = drawn ^ np.repeat(paper, width, axis=1)[:, None, :]
    bits = np.packbits(difference != 0, axis=2)
    most = difference.max(axis=1).reshape((*paper.shape, width)).max(axis=2)
    # Zero wraps around to the largest number, so that the least difference of inked pixels is left.
    difference -= np.uint32(1)
    least = difference.min(axis=1).reshape((*paper.shape, width)).min(axis=2) + np.uint32(1)
    octets = bits.reshape(len(drawn), height, grid.columns, width // 8).transpose(0, 2, 1, 3)
    words = packed(octets.reshape(len(drawn) * grid.columns, -1))
    return Cells(paper, paper ^ most, most == least, words.reshape(len(drawn), grid.columns, -1))
