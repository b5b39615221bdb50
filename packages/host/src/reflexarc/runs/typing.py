"""Typing into a console and reading back what it echoes, so that lost and doubled keys are put right."""

from __future__ import annotations

import time
from dataclasses import dataclass
from difflib import SequenceMatcher

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.keyboard import GuardedKeyboard
from reflexarc.observation import Observation, ScreenText
from reflexarc.sensing.watcher import Watcher

ECHO_TIMEOUT = 2.0
# A console that echoes nothing for so long is taken not to echo.
NO_ECHO = 0.4
CORRECTIONS = 3
SLOWER = 4.0
LEAST_LIKENESS = 0.5
LONGEST_BACK = 400


@dataclass(frozen=True)
class Line:
    """The line that is typed into: its row and what stood on it before."""

    row: int
    prompt: str


def line_of(screen: ScreenText | None) -> Line | None:
    """The last line with text, which is where a console echoes; None where no text was read."""
    if screen is None:
        return None
    for row in range(len(screen.lines) - 1, -1, -1):
        if screen.lines[row].strip():
            return Line(row, screen.lines[row].rstrip())
    return Line(0, "") if screen.lines else None


def echoed(screen: ScreenText | None, line: Line) -> str | None:
    """What stands behind the prompt now, over line breaks; None where the prompt's line can't be found."""
    if screen is None:
        return None
    width = max(screen.columns, len(line.prompt), 1)
    for row in range(min(line.row, len(screen.lines) - 1), -1, -1):
        if screen.lines[row].startswith(line.prompt):
            wrapped = "".join(part.ljust(width) for part in screen.lines[row:])
            return wrapped[len(line.prompt) :].strip()
    return None


def mistyped(text: str, shown: str) -> bool:
    """Tell whether what is shown is the text with keys lost or doubled, and not something else altogether.

    A console may echo stars, complete a word, or print a message of its own; none of that is to be erased.
    """
    if shown == text or not set(shown) <= set(text):
        return False
    return SequenceMatcher(None, text, shown, autojunk=False).ratio() >= LEAST_LIKENESS


@dataclass
class Typist:
    """Types on one machine. corrected: how many times lost or doubled keys were put right."""

    keyboard: GuardedKeyboard
    watcher: Watcher
    machine: str
    corrected: int = 0

    async def type(self, text: str) -> None:
        """Type a text and return once the console shows it.

        A console that echoes nothing is left at that. Raises OperationRejectedError where it shows another
        text after several corrections; the wrong text is still there then, and no Enter was pressed.
        """
        before = self.watcher.latest or await self.watcher.fresh()
        line = line_of(before.screen)
        readable = line is not None and not any(c in text for c in "\n\t") and text.strip() == text
        await self.keyboard.type(text)
        if line is None or not readable or not text:
            return
        shown = await self._shown(text, line)
        for attempt in range(CORRECTIONS):
            if shown is None or not mistyped(text, shown):
                return
            self.corrected += 1
            await self._erase(shown)
            await self.keyboard.type(text, slower=SLOWER * (attempt + 1))
            shown = await self._shown(text, line)
        if shown is not None and mistyped(text, shown):
            raise OperationRejectedError(
                f"typed {text!r}, and the console shows {shown[:200]!r} after {CORRECTIONS} corrections; "
                "no Enter was pressed",
                machine=self.machine,
                operation="keyboard.type",
                code="echo",
                detail=shown[:200],
            )

    async def _erase(self, shown: str) -> None:
        await self.keyboard.press("backspace", times=min(len(shown), LONGEST_BACK), hold=0.01)
        await self.watcher.still(0.1, at_most=1.0)

    async def _shown(self, text: str, line: Line) -> str | None:
        """What the console shows of the text once it is whole, or has stopped changing; None without echo."""
        began = time.monotonic()
        seen: Observation | None = await self.watcher.fresh()
        while True:
            shown = echoed(seen.screen if seen else None, line)
            if shown == text or shown is None:
                return shown
            waited = time.monotonic() - began
            if waited >= ECHO_TIMEOUT or (not shown and waited >= NO_ECHO):
                return shown or None
            if seen is not None and waited >= NO_ECHO and time.monotonic() - seen.changed_at >= NO_ECHO:
                return shown
            seen = await self.watcher.next(seen, 0.1) or seen
