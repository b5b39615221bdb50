"""The terminal from which the true text of firmware and GRUB screens is taken."""

from __future__ import annotations

import pytest
from guests.terminal import Terminal


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        ("one\r\ntwo", ["one", "two", ""]),
        ("\x1b[02;03Hat", ["", "  at", ""]),
        ("\x1b[1m\x1b[33;40mbold\x1b[0m", ["bold", "", ""]),
        ("abcdefghij", ["abcdefgh", "ij", ""]),
        ("1\r\n2\r\n3\r\n4", ["2", "3", "4"]),
        ("abc\x1b[1;2H\x1b[K", ["a", "", ""]),
        ("abc\r\ndef\x1b[1;2H\x1b[J", ["a", "", ""]),
        ("abc\x1b[2J", ["", "", ""]),
        ("abc\b\bX", ["aXc", "", ""]),
        ("x\x1b[B\x1b[Cy\x1b[A\x1b[Dz", ["x z", "  y", ""]),
        ("ab中文c", ["ab中文c", "", ""]),
        ("abcdefg中", ["abcdefg", "中", ""]),
        ("\x1b[99;99Hz", ["", "", "       z"]),
    ],
)
def test_text_stands_where_it_was_put(sent: str, lines: list[str]) -> None:
    terminal = Terminal(8, 3)
    terminal.feed(sent)
    assert terminal.lines == lines
