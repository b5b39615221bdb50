"""Reading files that a person names: plain ones only, and no more of them than is wanted."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_plain(path: Path, most: int, *, private: bool = False) -> bytes:
    """The content of a plain file, cut after `most` bytes and one more, by which a larger one is told.

    private: refuse one that others than its owner may use. Raises OSError, at once also for a pipe that nobody writes
    to.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        if private and mode & 0o077:
            raise PermissionError(errno.EACCES, f"others can read it; chmod 600 {path}", str(path))
        return file.read(most + 1)
