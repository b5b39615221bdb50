"""Memory without a name, whose descriptor is handed to the compositor.

Source: memfd_create(2), fcntl(2) "File Sealing".
"""

from __future__ import annotations

import os
import sys


def anonymous(size: int) -> int:
    """The descriptor of so many bytes that nobody can take away again: reading what is gone ends a process."""
    if sys.platform == "linux":
        import fcntl

        descriptor = os.memfd_create("reflexarc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
    else:  # noqa: RET505 (mypy knows what is unreachable on a platform only so)
        raise NotImplementedError
