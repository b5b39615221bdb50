"""The text rung: the exact reader of consoles, and the recognisers of phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.machine.geometry import Rect
from reflexarc.observation import CONFIDENT, ScreenText
from reflexarc.sensing.console import ConsoleReader, OverlayReader
from reflexarc.sensing.evidence import Page
from reflexarc.sensing.needle import is_alone, without
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.title import TitleReader
from reflexarc.sensing.unchanged import MAX_CURSOR, changed_box
from reflexarc.sensing.verdict import Answer

_CURSOR_SAMPLES = 15  # how many of every 8th pixel each way the largest cursor can cover


@dataclass(frozen=True, slots=True)
class Reading:
    """What the rung made of a frame: its answer if sure enough, the text read, and its best guess."""

    answer: Answer | None
    screen: ScreenText | None
    guess: str | None = None
    confidence: float = 0.0


class TextRung:
    """Reads the frames of one screen in their order."""

    def __init__(self, recognisers: Recognisers) -> None:
        self._recognisers = recognisers
        self._reader = ConsoleReader()
        # The last two pictures with their cells: a cursor that blinks shows them by turns.
        self._recent: list[tuple[Pixels, object, Reading]] = []
        self._overlay = OverlayReader()
        self._title = TitleReader()

    def learn(self, recognisers: Recognisers) -> None:
        """Recognise by these from the next frame on."""
        self._recognisers = recognisers
        self._recent = []

    def read(self, frame: Frame) -> Reading:
        """Read a frame and tell the phase its text and needles speak for; an empty screen is `blank`."""
        if self._recent and not _is_close(self._recent[-1][0], frame.pixels):
            self._recent = []
        for pixels, layout, reading in self._recent:
            if layout is self._reader.layout and np.array_equal(pixels, frame.pixels):
                return reading
        reading = self._read(frame)
        self._recent = [*self._recent[-1:], (frame.pixels, self._reader.layout, reading)]
        return reading

    def _read(self, frame: Frame) -> Reading:
        page, screen = self.page(frame)
        if not page.needles:
            if _is_empty(screen, frame.pixels):
                screen = replace(screen, lines=("",) * len(screen.lines), highlighted=()) if screen else None
                return Reading(Answer("blank", 1.0, "text", complete=True, screen=screen), screen)
            if screen is None and not self._recognisers.patches:
                return Reading(None, None)
        verdict = self._recognisers.of_screen(page)
        if verdict is None:
            return Reading(None, screen)
        if verdict.confidence < CONFIDENT:
            return Reading(None, screen, verdict.phase, verdict.confidence)
        return Reading(
            Answer(verdict.phase, verdict.confidence, verdict.rung, verdict.complete, screen), screen
        )

    def page(self, frame: Frame) -> tuple[Page, ScreenText | None]:
        """What recognisers look at, and the text that was read, None where there is no text console.

        Needles are painted over before the text is read: pictures are no characters.
        """
        pixels = frame.pixels
        needles = self._recognisers.needles
        found = {name: place for name, one in needles.items() if (place := one.find(pixels))}
        if found:
            pixels = without(pixels, found.values())
        screen = (
            self._reader.read(replace(frame, pixels=pixels))
            or self._overlay.read(pixels)
            or self._title.read(pixels)
        )
        alone = bool(found) and is_alone(pixels)
        return Page(screen or ScreenText(()), frozenset(found), alone, self._seeking(frame.pixels)), screen

    def _seeking(self, pixels: Pixels) -> Callable[[str], bool]:
        """Looks for a patch on a picture, for each at most once."""
        patches = self._recognisers.patches
        return cache(lambda name: name in patches and patches[name].is_on(pixels))

    def cell(self, row: int, column: int) -> Rect | None:
        """The pixels of a character cell of the frame read last, None where that was no text console."""
        return self._reader.cell(row, column)

    def cell_at(self, x: int, y: int) -> Rect | None:
        """The character cell at a pixel of the frame read last, None where that was no text console."""
        return self._reader.cell_at(x, y)

    def cursor_cell(self, screen: ScreenText | None) -> Rect | None:
        """The pixels of the cursor of what was read last."""
        return self._reader.cell(*screen.cursor) if screen and screen.cursor else None


def _is_close(before: Pixels, after: Pixels) -> bool:
    """Tell at a glance whether two pictures differ by no more than a cursor can."""
    if before.shape != after.shape:
        return False
    return int(np.count_nonzero(before[::8, ::8] != after[::8, ::8])) <= _CURSOR_SAMPLES


def _is_empty(screen: ScreenText | None, pixels: Pixels) -> bool:
    """Tell whether a picture shows nothing; a cursor alone may have been read as underscores or symbols."""
    shown = screen.text.split() if screen else []
    if screen is not None and not shown:
        return True
    return all(mark == "_" or mark >= "\u2000" for word in shown for mark in word) and is_blank(pixels)


def is_blank(pixels: Pixels) -> bool:
    """Tell whether a picture has one colour, but for a text cursor."""
    paper = pixels[-1, -1]
    if np.count_nonzero(pixels[::8, ::8] != paper) > _CURSOR_SAMPLES:
        return False
    box = changed_box(pixels, np.broadcast_to(paper, pixels.shape))
    return box is None or (box.width <= MAX_CURSOR.width and box.height <= MAX_CURSOR.height)
