"""The bitmap fonts that are known, and looking cells up in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]  # [cells, words]: the bits of a cell, row after row, padded to whole words
Codes = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

REPLACEMENT = 0xFFFD
# From here on code points draw rules, blocks and arrows, which straight edges of any picture may resemble.
FIRST_SYMBOL = 0x2000

_MIX = np.array(
    [
        0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5,
        0x85EBCA77C2B2AE63, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 0x2545F4914F6CDD1D,
    ],
    np.uint64,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class GlyphTable:
    """Glyphs of one cell size, found by their bits with the top-left pixel taken for paper.

    inverted: the glyph itself has ink there, so paper and ink change places.
    """

    hashes: Words
    words: Words
    codes: Codes
    inverted: Flags

    def find(self, words: Words) -> tuple[Codes, Flags]:
        """Code point (0 where there is no such glyph) and inversion of each cell."""
        at = np.searchsorted(self.hashes, mixed(words))
        at[at == len(self.hashes)] = 0
        hit = (self.words[at] == words).all(axis=1)
        return np.where(hit, self.codes[at], np.uint32(0)), self.inverted[at] & hit

    def find_apart_from(self, word: Words, hidden: Words) -> int:
        """Code point of the plainest glyph that agrees with a cell outside of the hidden bits, 0 if none."""
        agree = np.flatnonzero((((self.words ^ word) & ~hidden) == 0).all(axis=1) & ~self.inverted)
        codes = self.codes[agree]
        return int(codes[np.lexsort((codes, _rank(codes)))[0]]) if len(agree) else 0


def mixed(words: Words) -> Words:
    """A hash of each cell's words."""
    return np.asarray((words * _MIX[: words.shape[1]]).sum(axis=1, dtype=np.uint64))


def packed(cells: npt.NDArray[np.uint8]) -> Words:
    """The bytes of cells [n, bytes] as words."""
    padded = np.zeros((len(cells), cells.shape[1] + -cells.shape[1] % 8), np.uint8)
    padded[:, : cells.shape[1]] = cells
    return padded.view(np.uint64)


def _rank(codes: Codes) -> npt.NDArray[np.int64]:
    """How plain characters are: of glyphs that look alike the plainest is meant."""
    plain = (codes < 0x7F, (codes >= 0xA0) & (codes < 0x180), (codes >= 0x2500) & (codes < 0x25A0))
    return np.select(plain, (0, 1, 2), 3)


@cache
def wide_table() -> GlyphTable:
    """The glyphs of Unifont that take two cells, 16 by 16 pixels."""
    with files(__package__).joinpath("wide.npz").open("rb") as file, np.load(file) as tables:
        cells, codes = tables["16x16-uni/cells"], tables["16x16-uni/codes"].astype(np.uint32)
    return _table(cells, codes)


@cache
def _fonts() -> dict[tuple[int, int], dict[str, tuple[npt.NDArray[np.uint8], Codes]]]:
    fonts: dict[tuple[int, int], dict[str, tuple[npt.NDArray[np.uint8], Codes]]] = {}
    with files(__package__).joinpath("glyphs.npz").open("rb") as file, np.load(file) as tables:
        for key in tables.files:
            name, kind = key.split("/")
            if kind == "codes":
                width, height = map(int, name.split("-")[0].split("x"))
                codes = tables[key].astype(np.uint32)
                fonts.setdefault((width, height), {})[name] = (tables[f"{name}/cells"], codes)
    return fonts


def font_names(width: int, height: int) -> tuple[str, ...]:
    """The fonts with glyphs of that size, the likeliest first."""
    return tuple(_fonts().get((width, height), ()))


def font(name: str) -> dict[str, npt.NDArray[np.bool_]]:
    """The glyphs of one font, as bits [height, width], by character."""
    width, height = map(int, name.split("-")[0].split("x"))
    cells, codes = _fonts()[width, height][name]
    bits = np.unpackbits(cells, axis=1).astype(bool).reshape(len(codes), height, width)
    return {chr(code): glyph for code, glyph in zip(codes.tolist(), bits, strict=True)}


@cache
def glyph_table(first: str, *, alone: bool = False) -> GlyphTable:
    """All glyphs of the size of font `first`, or its own alone.

    Where bits mean several characters ASCII is meant, then what they are in that font, then the plainest.
    """
    width, height = map(int, first.split("-")[0].split("x"))
    fonts = _fonts()[width, height]
    others = () if alone else [fonts[name] for name in fonts if name != first]
    ranked = [fonts[first], *others]
    cells = np.concatenate([cells for cells, _ in ranked])
    codes = np.concatenate([codes for _, codes in ranked])
    place = np.concatenate([np.full(len(codes), at) for at, (_, codes) in enumerate(ranked)])
    plainest = np.lexsort((codes, _rank(codes), place, codes >= 0x7F))
    return _table(cells[plainest], codes[plainest])


def _table(cells: npt.NDArray[np.uint8], codes: Codes) -> GlyphTable:
    """A table of glyphs; of those with the same bits the first is meant."""
    inverted = cells[:, 0] >= 0x80
    words = packed(np.where(inverted[:, None], ~cells, cells))
    hashes, first_of = np.unique(mixed(words), return_index=True)
    inked = words[first_of].any(axis=1)
    kept = first_of[inked]
    return GlyphTable(hashes[inked], words[kept], codes[kept], inverted[kept])


def prepare() -> None:
    """Build the tables of the commonest cell size, so that the first frame need not wait for them."""
    for name in font_names(8, 16):
        glyph_table(name)
        glyph_table(name, alone=True)
