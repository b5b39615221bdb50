"""A user's bus serves that user only, root neither: root connects as the user."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import threading
from typing import List, Optional

_TIMEOUT = 5.0
# Source: Linux, arch/*/entry/syscalls; setresuid, on 32 bits setresuid32.
_SETRESUID = {
    **dict.fromkeys(("x86_64", "amd64"), 117),
    **dict.fromkeys(("aarch64", "riscv64", "loongarch64"), 147),
    **dict.fromkeys(("i386", "i686", "armv6l", "armv7l", "s390x"), 208),
    "ppc64le": 164,
}


def foreign_owner(path: str) -> Optional[int]:
    """The uid as which root must connect to a socket; None where this process connects as itself."""
    if os.geteuid() != 0 or path.startswith("\0"):
        return None
    return os.stat(path).st_uid or None


def connect_as(uid: int, path: str) -> socket.socket:
    """Connect to a unix socket as another user, which takes root; raises OSError."""
    found: List[socket.socket] = []
    failed: List[OSError] = []

    def connect() -> None:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _become(uid)
            connected.settimeout(_TIMEOUT)
            connected.connect(path)
            found.append(connected)
        except OSError as error:
            connected.close()
            failed.append(error)

    # The kernel keeps users by thread; this one ends as the other user, and no other thread is ever one.
    thread = threading.Thread(target=connect, name=f"connecting as {uid}")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _become(uid: int) -> None:
    """Change this thread's effective user; what the C library offers would change all threads'."""
    number = _SETRESUID.get(platform.machine())
    if number is None:
        raise OSError(
            errno.ENOSYS, f"can't connect as uid {uid} on {platform.machine()}: run the agent as that user"
        )
    libc = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.c_long(-1)
    if libc.syscall(ctypes.c_long(number), kept, ctypes.c_long(uid), kept) != 0:
        raise OSError(ctypes.get_errno(), f"can't connect as uid {uid}")
