"""What colours tell: the cells in reverse video, and a block cursor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from reflexarc.machine.frame import Pixels
from reflexarc.sensing.console.glyphs import Codes, Flags
from reflexarc.sensing.console.wide import CONTINUATION

_PAGE_SHARE = 0.15  # a paper colour that covers more of the screen is a page, not a highlight


def most_frequent(colours: Pixels | npt.NDArray[np.uint64]) -> int:
    """The commonest of some colours [n], 0 for none."""
    if not colours.size:
        return 0
    if (colours == colours[0]).all():
        return int(colours[0])
    values, counts = np.unique(colours, return_counts=True)
    return int(values[counts.argmax()])


def reverse_video(paper: Pixels, ink: Pixels) -> Flags:
    """Cells whose paper stands out from the pages of the screen, or whose colours are the main pair swapped."""
    if (paper == paper[0, 0]).all():
        return np.zeros(paper.shape, np.bool_)
    _, inverse, counts = np.unique(paper, return_inverse=True, return_counts=True)
    small = (counts < _PAGE_SHARE * paper.size)[inverse.reshape(paper.shape)]
    inked = paper != ink
    pairs = paper[inked].astype(np.uint64) << np.uint64(32) | ink[inked]
    main = most_frequent(pairs)
    swapped = (paper == np.uint32(main & 0xFFFFFFFF)) & (ink == np.uint32(main >> 32))
    return np.asarray(small | swapped, np.bool_)


def block_cursor(paper: Pixels, ink: Pixels) -> tuple[int, int] | None:
    """Place of the one cell whose paper is the text colour amid cells of another, None if there isn't one."""
    if (paper == paper[0, 0]).all():
        return None
    text_colour = most_frequent(ink[paper != ink])
    candidate = paper == np.uint32(text_colour)
    if not 0 < np.count_nonzero(candidate) <= candidate.size // 2:
        return None
    padded = np.pad(candidate, 1)
    alone = candidate & ~(padded[1:-1, :-2] | padded[1:-1, 2:] | padded[:-2, 1:-1] | padded[2:, 1:-1])
    places = np.argwhere(alone)
    return (int(places[0, 0]), int(places[0, 1])) if len(places) == 1 else None


def runs(marked: Flags, paper: Pixels, codes: Codes) -> Iterator[tuple[int, int, str]]:
    """(row, first column, text) of each run of marked cells of one paper colour that holds text."""
    for row in np.flatnonzero(marked.any(axis=1)).tolist():
        key = np.where(marked[row], paper[row].astype(np.int64), -1)
        bounds = np.flatnonzero(np.diff(key, prepend=-2, append=-2)).tolist()
        for first, end in pairwise(bounds):
            text = "".join(
                chr(code) for code in codes[row, first:end].tolist() if code != CONTINUATION
            ).rstrip()
            if key[first] >= 0 and text:
                yield row, first, text
