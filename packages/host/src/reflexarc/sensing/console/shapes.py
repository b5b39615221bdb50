"""Cells that no font explains: ruled lines drawn by pixels, and characters under a text cursor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reflexarc.sensing.console.glyphs import GlyphTable, packed

Bits = npt.NDArray[np.bool_]  # [height, width] of one cell, ink True

# By which edges of the cell the ink reaches: top, bottom, left, right.
_RULES = {
    (False, False, True, True): "─",
    (True, True, False, False): "│",
    (False, True, False, True): "┌",
    (False, True, True, False): "┐",
    (True, False, False, True): "└",
    (True, False, True, False): "┘",
}
_RULE_THICKNESS = 5


def rule(bits: Bits) -> str:
    """The box-drawing character for a line or corner up to 5 pixels thick, else empty."""
    flipped: Bits = bits if bits.mean() <= 0.5 else np.logical_not(bits)
    rows, columns = np.asarray(flipped.any(axis=1)), np.asarray(flipped.any(axis=0))
    edges = (bool(rows[0]), bool(rows[-1]), bool(columns[0]), bool(columns[-1]))
    thin_rows, thin_columns = flipped[rows], flipped[:, columns]
    if edges == (False, False, True, True) or (all(edges[2:]) and edges[0] != edges[1]):
        straight = bool(thin_rows.all()) and len(thin_rows) <= _RULE_THICKNESS
        return "─" if straight else ""
    if edges == (True, True, False, False) or (all(edges[:2]) and edges[2] != edges[3]):
        straight = bool(thin_columns.all()) and thin_columns.shape[1] <= _RULE_THICKNESS
        return "│" if straight else ""
    if edges in _RULES and _is_corner(flipped[rows][:, columns], edges):
        return _RULES[edges]
    return ""


def _is_corner(bits: Bits, edges: tuple[bool, ...]) -> bool:
    """Tell whether a box holds an L: one bar along one side and one along another, nothing else."""
    upright = bits[:: -1 if edges[0] else 1, :: -1 if edges[2] else 1]
    bar = int(np.argmin(np.append(upright.all(axis=1), False)))
    post = int(np.argmin(np.append(upright.all(axis=0), False)))
    rest = upright[bar:, post:]
    return 0 < bar <= _RULE_THICKNESS and 0 < post <= _RULE_THICKNESS and not rest.any()


def under_cursor(bits: Bits, table: GlyphTable | None) -> str:
    """The character on which an underline cursor stands, a blank for none, empty where it is no cursor.

    Without a table only a cursor on a blank is seen. Consoles put the cursor over the lowest quarter, two or
    three rows high, as full rows of ink or inverted.
    """
    for top, bottom in _bands(bits):
        band = np.zeros_like(bits)
        band[top:bottom] = True
        if (bits == band).all():
            return " "
        if table is None:
            continue
        code = int(table.find(_word(bits ^ band))[0][0])
        code = code or table.find_apart_from(_word(bits), _word(band))
        if code:
            return chr(code)
    return ""


def _bands(bits: Bits) -> list[tuple[int, int]]:
    """Where an underline cursor may be: rows [top, bottom) of the lowest quarter, all ink or nearly so."""
    height = len(bits)
    full = bits.mean(axis=1) >= 0.5
    low = height - max(3, height // 4)
    return [
        (top, bottom)
        for bottom in range(height, low, -1)
        for top in range(max(low, bottom - max(3, height // 8)), bottom - 1)
        if full[top:bottom].all()
    ]


def _word(bits: Bits) -> npt.NDArray[np.uint64]:
    octets = np.packbits(bits, axis=1).reshape(1, -1)
    return packed(octets if octets[0, 0] < 0x80 else ~octets)
