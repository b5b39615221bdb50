"""QEMU's pid file, which it locks for as long as it lives: a stale one can't be taken for a running machine."""

from __future__ import annotations

import fcntl
from pathlib import Path


def holder(path: Path) -> int | None:
    """The number of the QEMU that holds the lock on its pid file; None where none does."""
    try:
        with open(path, "rb") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return int(file.read(32))
    except (FileNotFoundError, ValueError):
        pass
    return None
