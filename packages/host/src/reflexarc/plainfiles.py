"""Reading files that a person names: plain ones only, and no more of them than is wanted."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_plain(path: Path, most: int) -> bytes:
    """The content of a plain file, cut after `most` bytes and one more, by which a larger one is told.

    Raises OSError, at once also for a pipe that nobody writes to.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        return file.read(most + 1)
