"""What a screen really says, from a source other than its picture."""

from __future__ import annotations

import socket
import struct

from guests.terminal import Terminal
from guests.vm import Machine

_CONTROL_PICTURES = " ☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼"
_PAGE_437 = _CONTROL_PICTURES + bytes(range(32, 127)).decode() + "⌂" + bytes(range(128, 256)).decode("cp437")
_LIGHT = str.maketrans("┏━┓┃┗┛", "┌─┐│└┘")
_CRTC = 0x3D4
_TEXT_MEMORY = 0xB8000
_TEXT_MEMORY_SIZE = 0x8000


def vga(machine: Machine, rows: int = 25, columns: int = 80) -> list[str]:
    """The lines of a VGA text mode with the font of the ROM, from the adapter's memory.

    Source: VGA register specification, CRTC registers 0x0C and 0x0D (start address).
    """
    before = _port(machine, _CRTC)
    high, low = (_register(machine, index) for index in (0x0C, 0x0D))
    machine.monitor(f"o /b {_CRTC:#x} {before:#x}")
    memory = machine.memory(_TEXT_MEMORY, _TEXT_MEMORY_SIZE) * 2
    start = (high << 8 | low) * 2 % _TEXT_MEMORY_SIZE
    lines = []
    for row in range(rows):
        line = memory[start + row * columns * 2 : start + (row + 1) * columns * 2]
        lines.append("".join(_seen(line[at], line[at + 1]) for at in range(0, len(line), 2)).rstrip())
    return lines


def _seen(code: int, attribute: int) -> str:
    """The character of a cell; ink in the colour of the paper is not seen."""
    return " " if code == 0xFF or attribute >> 4 == attribute & 0xF else _PAGE_437[code]


def _register(machine: Machine, index: int) -> int:
    machine.monitor(f"o /b {_CRTC:#x} {index:#x}")
    return _port(machine, _CRTC + 1)


def _port(machine: Machine, port: int) -> int:
    return int(machine.monitor(f"i /b {port:#x}").split("=")[1], 16)


def mirror(machine: Machine, columns: int, rows: int, encoding: str = "utf-8") -> list[str]:
    """The lines of a console that firmware or GRUB also shows on the first serial line; rules as light ones."""
    terminal = Terminal(columns, rows)
    terminal.feed(machine.serial().decode(encoding, errors="replace"))
    return [line.translate(_LIGHT) for line in terminal.lines]


def vcs(machine: Machine) -> list[str]:
    """The lines of the first virtual console, as the Linux guest sends them over its second serial line.

    Source: vcs(4): /dev/vcsa begins with lines, columns, x and y; /dev/vcsu has a 32-bit code point a cell.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(str(machine.folder / "console"))
        line.sendall(b"screen\n")
        with line.makefile("rb") as answer:
            while (head := answer.readline().split())[:1] != [b"screen"]:
                pass
            rows, columns = int(head[1]), int(head[2])
            packed = bytes.fromhex(answer.readline().decode())
    codes = struct.unpack(f"<{rows * columns}I", packed)
    text = "".join(map(chr, codes))
    return [text[at : at + columns].rstrip() for at in range(0, len(text), columns)]
