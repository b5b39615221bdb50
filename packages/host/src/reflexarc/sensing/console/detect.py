"""Finding the grid and the font of a screen, or that it is no text console, within a bounded cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Pixels
from reflexarc.sensing.console import wide
from reflexarc.sensing.console.cells import Cells, Rows, cut
from reflexarc.sensing.console.glyphs import (
    FIRST_SYMBOL,
    REPLACEMENT,
    Codes,
    Flags,
    font_names,
    glyph_table,
    packed,
)
from reflexarc.sensing.console.grid import Grid, likely_grids

ENOUGH = 0.6  # share of the inked cells that must be characters for a screen to be a text console
SURE = 0.95
_BLANK = 0x20
_SAMPLED_ROWS = 8
_MAX_COLOURS = 96
_WINDOWS = 3
_WINDOW_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """A grid and the font whose reading of its cells comes first."""

    grid: Grid
    font: str


def text_share(inked: int, symbols: int, unread: int) -> float:
    """Share of characters among the inked cells that are no symbols.

    Rules and blocks don't count either way: straight edges of any picture look like them.
    """
    others = inked - symbols
    return (others - unread) / others if others else 0.0


def margins_are_plain(pixels: Pixels, grid: Grid) -> bool:
    """Tell whether nothing is drawn above, below and left of the cells."""
    bottom = grid.y + grid.rows * grid.cell_height
    margins = (pixels[: grid.y], pixels[bottom:], pixels[:, : grid.x])
    return all((margin == margin[:1, :1]).all() for margin in margins if margin.size)


def detect(pixels: Pixels) -> Layout | None:
    """The layout of a text console, None where the picture is something else."""
    layout = _best_layout(pixels)
    if layout is None or margins_are_plain(pixels, layout.grid):
        return layout
    grid, (height, width) = layout.grid, pixels.shape
    cell = grid.cell_width, grid.cell_height
    return Layout(Grid.over(width, height, cell, grid.x % cell[0], grid.y % cell[1]), layout.font)


def _best_layout(pixels: Pixels) -> Layout | None:
    if len(np.unique(pixels[::8, ::8])) > _MAX_COLOURS:
        return None
    edges = np.count_nonzero(pixels[:, 1:] != pixels[:, :-1], axis=1)
    best: tuple[float, Layout | None] = (0.0, None)
    for grid in likely_grids(pixels.shape[1], pixels.shape[0]):
        best = max(best, _rate(pixels, grid, edges), key=lambda rated: rated[0])
        if best[0] >= SURE:
            return best[1]
    if best[0] < ENOUGH and (found := _search(pixels, edges)):
        best = max(best, _rate(pixels, found, edges), key=lambda rated: rated[0])
    return best[1] if best[0] >= ENOUGH else None


def _rate(pixels: Pixels, grid: Grid, edges: Rows) -> tuple[float, Layout | None]:
    """How well a sample of the cells reads on that grid, with the font that reads most of it."""
    names = font_names(grid.glyph_width, grid.cell_height)
    busy = edges[grid.y : grid.y + grid.rows * grid.cell_height].reshape(grid.rows, -1).any(axis=1)
    rows = np.flatnonzero(busy)
    if not names or not len(rows):
        return 0.0, None
    sample = np.unique(np.linspace(0, len(rows) - 1, _SAMPLED_ROWS).astype(np.intp))
    cells = cut(pixels, grid, rows[sample])
    inked = cells.paper != cells.ink
    words = cells.words[inked]
    codes = np.where(cells.plain[inked], glyph_table(names[0]).find(words)[0], np.uint32(0))
    share = text_share(len(codes), *_symbols_and_unread(codes))
    two_coloured = np.count_nonzero(cells.plain[inked]) >= ENOUGH * len(codes)
    if share < ENOUGH and two_coloured and (grid.cell_width, grid.cell_height) == (8, 16):
        share = _share_with_wide(cells, inked, codes)
    if share < ENOUGH:
        return share, None
    return share, Layout(grid, max(names, key=lambda name: _own(name, words)))


def _share_with_wide(cells: Cells, inked: Flags, codes: Codes) -> float:
    """The share of characters where those that take two cells are read too."""
    every = np.full(inked.shape, _BLANK, np.uint32)
    every[inked] = np.where(codes > 0, codes, np.uint32(REPLACEMENT))
    wide.join(cells, every)
    shown = every[inked]
    wide_ones = int(np.count_nonzero((every == wide.CONTINUATION) & inked))
    unread = int(np.count_nonzero(shown == REPLACEMENT))
    symbols = int(np.count_nonzero(shown >= FIRST_SYMBOL)) - unread - wide_ones
    return text_share(len(shown), max(0, symbols), unread)


def _symbols_and_unread(codes: Codes) -> tuple[int, int]:
    return int(np.count_nonzero(codes >= FIRST_SYMBOL)), int(np.count_nonzero(codes == 0))


def _own(name: str, words: npt.NDArray[np.uint64]) -> int:
    """How many cells a font reads by glyphs of its own."""
    own = glyph_table(name, alone=True).find(words)[0]
    return int(np.count_nonzero((own > 0) & (own < FIRST_SYMBOL)))


def _search(pixels: Pixels, edges: Rows) -> Grid | None:
    """Try every origin of 8x16 cells on the busiest parts: graphical terminals put them anywhere."""
    height, width = pixels.shape
    if height < 48 or width < 64:
        return None
    scores = np.zeros((8, 16))
    for top in _busiest(edges, 32):
        scores += _origins(pixels[top : top + 32], top)
    x, y = np.unravel_index(int(scores.argmax()), scores.shape)
    return Grid.over(width, height, (8, 16), int(x), int(y))


def _busiest(edges: Rows, height: int) -> list[int]:
    """Tops of the strips with most edges, apart from each other."""
    usual = 2 * float(np.median(edges[edges > 0])) if edges.any() else 0.0
    load = np.convolve(np.minimum(edges, usual), np.ones(height), "valid")
    tops = []
    for _ in range(_WINDOWS):
        top = int(load.argmax())
        if load[top] <= 0:
            break
        tops.append(top)
        load[max(0, top - height) : top + height] = 0
    return tops


def _origins(strip: Pixels, top: int) -> npt.NDArray[np.float64]:
    """Characters found less cells not read, for each origin (x mod 8, y mod 16) on a strip 32 pixels high."""
    values, counts = np.unique(strip[::2, ::2], return_counts=True)
    ink = strip != values[counts.argmax()]
    columns = ink.shape[1] // 8 - 1
    load = ink[:, : columns * 8].reshape(32, columns, 8).sum(axis=(0, 2))
    chosen = np.sort(np.argsort(-load, kind="stable")[:_WINDOW_COLUMNS])
    octets = np.stack([np.packbits(ink[:, x : x + columns * 8], axis=1)[:, chosen] for x in range(8)])
    windows = np.lib.stride_tricks.sliding_window_view(octets, 16, axis=1)[:, :16]
    cells = windows.reshape(-1, 16)
    words = packed(np.where(cells[:, :1] >= 0x80, ~cells, cells))
    codes = glyph_table(font_names(8, 16)[0]).find(words)[0].reshape(8, 16, -1)
    read = (codes > 0) & (codes < FIRST_SYMBOL)
    unread = (codes == 0) & words.any(axis=1).reshape(codes.shape)
    return np.roll(read.sum(axis=2) - 0.5 * unread.sum(axis=2), top % 16, axis=1)
