"""Files for this user alone: they may tell what a machine showed, said and was told."""

from __future__ import annotations

import os
from pathlib import Path


def opener(path: str, flags: int) -> int:
    """Open for `open(..., opener=opener)`; a new file can be read and written by this user only."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def write(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=opener) as file:
        file.write(text)
