"""Conditions on the text of a screen or of a serial console, as recognisers state them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from reflexarc.observation import ScreenText
from reflexarc.sensing.tree import TreeReading

MAX_TEXT = 65_536

# Places of a page by the words recognisers use, and the attributes of `Page` that hold their text.
PLACES = {
    "anywhere": "text",
    "last_line": "last_line",
    "prompt": "prompt",
    "cursor_line": "cursor_line",
    "before_cursor": "before_cursor",
}

# A kernel message, alone on a line or printed behind what stood there; consoles print them at the cursor.
_KERNEL_MESSAGE = re.compile(r"\[ *\d{1,7}\.\d{6}\](?:\[ *[TC]\d+\])? ?.*")


@dataclass(frozen=True)
class Page:
    """What recognisers look at: the text of a screen, or of a serial console, cut to 64 KiB, or a guest's tree.

    needles: names of the pictures seen on the screen. alone: nothing else is drawn in its upper nine tenths.
    seek: tells of one more picture whether it is there; such are looked for only where evidence asks.
    """

    screen: ScreenText
    needles: frozenset[str] = frozenset()
    alone: bool = False
    seek: Callable[[str], bool] | None = None
    tree: TreeReading | None = None

    def sees(self, needle: str) -> bool:
        """Tell whether a picture is on the screen."""
        return needle in self.needles or (self.seek is not None and self.seek(needle))

    @cached_property
    def text(self) -> str:
        return self.screen.text[:MAX_TEXT]

    def rows(self, first: int, last: int) -> str:
        """Rows from first to last, both included; negative ones count from the last row of the screen."""
        count = len(self.screen.lines)
        start, end = (row if row >= 0 else count + row for row in (first, last))
        return "\n".join(self.screen.lines[max(0, start) : max(0, end + 1)])[:MAX_TEXT]

    @cached_property
    def last_line(self) -> str:
        """The last line that is not blank."""
        return next((line for line in reversed(self.screen.lines) if line.strip()), "")[:MAX_TEXT]

    @cached_property
    def prompt(self) -> str:
        """The last line that is not blank; kernel messages after it and a terminal's status bar left out."""
        lines = [line for line in self.screen.lines if line.strip()]
        if self._has_status_bar():
            lines.pop()
        while lines:
            line = lines.pop()
            cut = _KERNEL_MESSAGE.sub("", line)
            if cut.strip() and not self._continues(lines, line):
                return cut.rstrip()
        return ""

    def _has_status_bar(self) -> bool:
        """Tell whether the lowest row is in reverse video as a whole, as terminal multiplexers have it."""
        bottom = len(self.screen.lines) - 1
        bars = [text for row, column, text in self.screen.highlighted if row == bottom and column == 0]
        return bool(bars) and bars[0] == self.screen.lines[bottom]

    def _continues(self, above: list[str], line: str) -> bool:
        """Tell whether a line is the rest of a kernel message that filled the line above it."""
        columns = self.screen.columns
        for earlier in reversed(above):
            if not columns or len(earlier) < columns:
                return False
            if _KERNEL_MESSAGE.search(earlier):
                return not _KERNEL_MESSAGE.search(line)
        return False

    @cached_property
    def cursor_line(self) -> str:
        """The line on which the cursor stands, empty where none is seen."""
        cursor = self.screen.cursor
        return self.screen.lines[cursor[0]] if cursor and cursor[0] < len(self.screen.lines) else ""

    @cached_property
    def before_cursor(self) -> str:
        """The cursor's line up to the cursor; empty where none is seen or text follows it."""
        line, cursor = self.cursor_line, self.screen.cursor
        return line if cursor and len(line) <= cursor[1] else ""


class Evidence(Protocol):
    """Something that a page shows or does not show; as a string it reads like the file that states it."""

    def holds(self, page: Page) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Text:
    """A pattern found at least `count` times at a place of the page."""

    pattern: re.Pattern[str]
    place: str = "anywhere"
    rows: tuple[int, int] | None = None
    count: int = 1

    def holds(self, page: Page) -> bool:
        if self.place == "line":
            found = sum(
                self.pattern.fullmatch(line[:MAX_TEXT].rstrip()) is not None for line in page.screen.lines
            )
            return found >= self.count
        text = page.rows(*self.rows) if self.rows else str(getattr(page, PLACES[self.place]))
        matches = self.pattern.finditer(text)
        return sum(1 for _, _ in zip(range(self.count), matches, strict=False)) >= self.count

    def __str__(self) -> str:
        where = f"rows {self.rows[0]} to {self.rows[1]}" if self.rows else self.place.replace("_", " ")
        times = f", {self.count} times" if self.count > 1 else ""
        return f"text {self.pattern.pattern!r} ({where}{times})"


@dataclass(frozen=True)
class Highlighted:
    """A pattern found in a run of cells in reverse video."""

    pattern: re.Pattern[str]

    def holds(self, page: Page) -> bool:
        return any(self.pattern.search(text[:MAX_TEXT]) for _, _, text in page.screen.highlighted)

    def __str__(self) -> str:
        return f"highlighted {self.pattern.pattern!r}"


@dataclass(frozen=True)
class Seen:
    """A needle that is on the screen, together with other things or alone."""

    needle: str
    alone: bool = False

    def holds(self, page: Page) -> bool:
        return page.sees(self.needle) and (page.alone or not self.alone)

    def __str__(self) -> str:
        return f"needle {self.needle}{' alone' if self.alone else ''}"


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Evidence, ...]

    def holds(self, page: Page) -> bool:
        return any(part.holds(page) for part in self.parts)

    def __str__(self) -> str:
        return f"any of [{'; '.join(map(str, self.parts))}]"


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Evidence, ...]

    def holds(self, page: Page) -> bool:
        return all(part.holds(page) for part in self.parts)

    def __str__(self) -> str:
        return f"all of [{'; '.join(map(str, self.parts))}]"


@dataclass(frozen=True)
class Not:
    part: Evidence

    def holds(self, page: Page) -> bool:
        return not self.part.holds(page)

    def __str__(self) -> str:
        return f"not {self.part}"
