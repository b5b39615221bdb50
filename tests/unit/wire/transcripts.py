"""The recorded conversations, as lines with who said them."""

from __future__ import annotations

from pathlib import Path

Line = tuple[str, bytes]
FOLDER = Path(__file__).parent / "conversations"
NAMES = ("v2", "v3")


def connections(name: str) -> list[list[Line]]:
    """Each connection's lines as (">" or "<", the line with its newline)."""
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    blocks = [
        [line for line in block.splitlines() if not line.startswith("#")] for block in text.split("\n\n")
    ]
    return [[(line[0], line[2:].encode() + b"\n") for line in block] for block in blocks]


def said(name: str, who: str) -> list[list[bytes]]:
    """What one side says on each connection."""
    return [[line for speaker, line in block if speaker == who] for block in connections(name)]
