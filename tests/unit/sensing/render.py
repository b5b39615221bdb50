"""Draws text consoles from the shipped glyph tables, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.sensing.console.glyphs import font

GREY, BLACK = 0xAAAAAA, 0x000000


@dataclass(frozen=True)
class Console:
    """A text console: its font, its cells, its size and where the first cell lies."""

    font: str = "8x16-rom"
    cell: tuple[int, int] = (9, 16)
    size: tuple[int, int] = (720, 400)
    origin: tuple[int, int] = (0, 0)
    paper: int = BLACK
    ink: int = GREY
    inverted: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    @property
    def columns(self) -> int:
        return (self.size[0] - self.origin[0]) // self.cell[0]

    @property
    def rows(self) -> int:
        return (self.size[1] - self.origin[1]) // self.cell[1]

    def pixels(
        self, lines: Sequence[str], *, cursor: tuple[int, int] | None = None, block: bool = False
    ) -> Pixels:
        """The picture of some lines; an underline cursor two rows high, or a block, at (row, column)."""
        pixels = np.full((self.size[1], self.size[0]), self.paper, np.uint32)
        glyphs = font(self.font)
        for row, line in enumerate(lines):
            for column, character in enumerate(line):
                cell = self._cell(pixels, row, column)
                if (row, column) in self.inverted:
                    cell[:] = self.ink
                if character != " ":
                    glyph = glyphs[character]
                    drawn = self.paper if (row, column) in self.inverted else self.ink
                    cell[:, : glyph.shape[1]][glyph] = drawn
        if cursor:
            self._draw_cursor(self._cell(pixels, *cursor), block=block)
        return pixels

    def frame(
        self,
        lines: Sequence[str],
        *,
        at: float = 1.0,
        number: int = 1,
        cursor: tuple[int, int] | None = None,
        block: bool = False,
    ) -> Frame:
        return Frame(self.pixels(lines, cursor=cursor, block=block), at, number)

    def _cell(self, pixels: Pixels, row: int, column: int) -> Pixels:
        (width, height), (x, y) = self.cell, self.origin
        return pixels[
            y + row * height : y + (row + 1) * height, x + column * width : x + (column + 1) * width
        ]

    def _draw_cursor(self, cell: Pixels, *, block: bool) -> None:
        if block:
            inked = cell == self.ink
            cell[:] = np.where(inked, self.paper, self.ink)
        else:
            low = self.cell[1] - 3 if self.cell[0] == 9 else self.cell[1] - 2
            cell[low : low + 2] = self.ink


VGA = Console()
VGA_640 = Console(cell=(8, 16), size=(640, 400))
FRAMEBUFFER = Console(font="8x16-classic", cell=(8, 16), size=(1024, 768))
GRAPHICAL_GRUB = Console(font="8x16-uni", cell=(8, 16), size=(1024, 768), origin=(10, 10))
EFI = Console(font="8x19-efi", cell=(8, 19), size=(1280, 800), origin=(240, 10))
SMALL = Console(font="8x8-rom", cell=(8, 8), size=(640, 400))
TALL = Console(font="8x14-rom", cell=(8, 14), size=(640, 350))
LARGE = Console(font="16x32-bold", cell=(16, 32), size=(1920, 1080))

CONSOLES = {
    "vga": VGA,
    "vga 640": VGA_640,
    "framebuffer": FRAMEBUFFER,
    "graphical GRUB": GRAPHICAL_GRUB,
    "EFI": EFI,
    "8x8": SMALL,
    "8x14": TALL,
    "16x32": LARGE,
}

GRUB_ENTRIES = ("*Debian GNU/Linux", " Advanced options for Debian GNU/Linux", " UEFI Firmware Settings")
GRUB_HELP = (
    "      Use the ↑ and ↓ keys to select which entry is highlighted.",
    "      Press enter to boot the selected OS, `e' to edit the commands",
    "      before booting or `c' for a command-line.",
)


def grub_menu(*, frame: bool = True, help_lines: bool = True, highlight: bool = True) -> Frame:
    """GRUB's menu in VGA text mode, whole or half drawn."""
    lines = ["", "                       GNU GRUB  version 2.06-13+deb12u2", ""]
    if frame:
        lines.append(" ┌" + "─" * 76 + "┐")
        lines += [f" │{entry:76}│" for entry in GRUB_ENTRIES]
        lines.append(" └" + "─" * 76 + "┘")
    if help_lines:
        lines += ["", *GRUB_HELP]
    selected = frozenset((4, column) for column in range(2, 78)) if highlight else frozenset()
    return Console(inverted=selected).frame(lines)
