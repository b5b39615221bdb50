"""Locks on what only one program can use at a time; the kernel frees them when their holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Lock:
    """A lock file that is held until `close()`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """Take the lock, None where somebody else holds it; never waits."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return cls(descriptor)

    def close(self) -> None:
        """Free the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
