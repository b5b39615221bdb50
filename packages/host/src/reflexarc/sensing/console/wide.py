"""Characters that take two cells: Chinese, Japanese and Korean, as graphical terminals draw them with Unifont."""

from __future__ import annotations

import numpy as np

from reflexarc.machine.frame import Pixels
from reflexarc.sensing.console.cells import Cells, Rows
from reflexarc.sensing.console.glyphs import REPLACEMENT, Codes, Flags, Words, packed, wide_table

# Code of the second cell of a character that takes two; it stands for no character of its own.
CONTINUATION = 1
_PLAIN = 0x7F


def join(cells: Cells, codes: Codes) -> None:
    """Put the characters that take two cells into codes [rows, columns], where narrow glyphs leave cells unread.

    `cells` are 8 pixels wide and 16 high.
    """
    unread = codes == REPLACEMENT
    rows = np.flatnonzero(unread.any(axis=1))
    if not len(rows) or codes.shape[1] < 2:
        return
    foreign = unread[rows] | (codes[rows] > _PLAIN)
    half = unread[rows]
    pairs = (half[:, :-1] | half[:, 1:] | (foreign[:, :-1] & foreign[:, 1:])) & _two_coloured(cells, rows)
    at, columns = np.nonzero(pairs)
    if not len(at):
        return
    found, _ = wide_table().find(_pair_words(cells, rows[at], columns))
    taken = (-1, -1)
    for row, column, code in zip(rows[at].tolist(), columns.tolist(), found.tolist(), strict=True):
        if code and (row, column) > taken:
            codes[row, column], codes[row, column + 1] = code, CONTINUATION
            taken = (row, column + 1)


def _two_coloured(cells: Cells, rows: Rows) -> Flags:
    """Pairs of neighbours that have the same two colours between them [rows, columns - 1]."""
    plain, paper, ink = cells.plain[rows], cells.paper[rows], cells.ink[rows]
    left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
    same = (paper[left] == paper[right]) & ((ink[left] == ink[right]) | _blank(paper, ink, left, right))
    swapped = (paper[left] == ink[right]) & (ink[left] == paper[right])
    return np.asarray(plain[left] & plain[right] & (same | swapped), np.bool_)


def _blank(paper: Pixels, ink: Pixels, left: tuple[slice, slice], right: tuple[slice, slice]) -> Flags:
    return np.asarray((paper[left] == ink[left]) | (paper[right] == ink[right]), np.bool_)


def _pair_words(cells: Cells, rows: Rows, columns: Rows) -> Words:
    """The bits of pairs of cells as those of cells 16 pixels wide, the top-left pixel taken for paper."""
    first = cells.words[rows, columns].view(np.uint8)
    second = cells.words[rows, columns + 1].view(np.uint8)
    turned = cells.paper[rows, columns] != cells.paper[rows, columns + 1]
    second = np.where(turned[:, None], ~second, second)
    return packed(np.stack([first, second], axis=2).reshape(len(first), -1))
