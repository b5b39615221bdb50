"""A text terminal as firmware and GRUB drive it on a serial line: enough of ECMA-48 to know its screen."""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(
    r"\x1b\[([0-9;=?]*)([@-~])|\x1b[()][0-~]|\x1b.|([\x00-\x1f])|([^\x00-\x1f\x1b]+)", re.DOTALL
)


class Terminal:
    """The cells of a terminal fed with the text sent to it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        """Obey a text; sequences that only colour are passed over."""
        for arguments, final, control, plain in _TOKEN.findall(text):
            if final:
                self._sequence(final, [int(part) if part.isdigit() else 0 for part in arguments.split(";")])
            elif control:
                self._control(control)
            for character in plain:
                self._put(character)

    @property
    def lines(self) -> list[str]:
        """The rows, blanks at their ends kept off."""
        return ["".join(row).rstrip() for row in self._cells]

    def _put(self, character: str) -> None:
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self._column + width > self.columns:
            self._column = 0
            self._line_feed()
        self._cells[self._row][self._column : self._column + width] = [character, *[""] * (width - 1)]
        self._column += width

    def _line_feed(self) -> None:
        if self._row + 1 < self.rows:
            self._row += 1
        else:
            self._cells = [*self._cells[1:], [" "] * self.columns]

    def _control(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control == "\n":
            self._line_feed()
        elif control == "\b":
            self._column = max(0, self._column - 1)

    def _sequence(self, final: str, numbers: list[int]) -> None:
        first = numbers[0]
        if final in "Hf":
            self._row = min(max(first, 1), self.rows) - 1
            self._column = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif final == "J":
            self._erase_display(first)
        elif final == "K":
            self._erase_line(first)
        elif final in "ABCD":
            self._move(final, max(first, 1))

    def _move(self, final: str, by: int) -> None:
        down, right = {"A": (-by, 0), "B": (by, 0), "C": (0, by), "D": (0, -by)}[final]
        self._row = min(max(self._row + down, 0), self.rows - 1)
        self._column = min(max(self._column + right, 0), self.columns - 1)

    def _erase_display(self, which: int) -> None:
        if which == 2:
            self._cells = [[" "] * self.columns for _ in range(self.rows)]
        elif which == 0:
            self._erase_line(0)
            self._cells[self._row + 1 :] = [[" "] * self.columns for _ in range(self.rows - self._row - 1)]

    def _erase_line(self, which: int) -> None:
        start = self._column if which == 0 else 0
        self._cells[self._row][start:] = [" "] * (self.columns - start)
