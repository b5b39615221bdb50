"""A user's bus serves that user only, root neither: root connects as the user."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import subprocess
import sys
from typing import Optional

_TIMEOUT = 5.0
# The kernel tells the bus whose process called connect(), whoever holds the socket afterwards.
_CONNECT = (
    "import socket, sys\n"
    "connected = socket.socket(socket.AF_UNIX)\n"
    "connected.connect(sys.argv[1])\n"
    "socket.send_fds(socket.socket(fileno=0), [b'.'], [connected.fileno()])\n"
)


def foreign_owner(path: str) -> Optional[int]:
    """The uid as which root must connect to a socket; None where this process connects as itself."""
    if os.geteuid() != 0 or path.startswith("\0"):
        return None
    return os.stat(path).st_uid or None


def connect_as(uid: int, path: str) -> socket.socket:
    """Connect to a unix socket as another user, which takes root; raises OSError."""
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        gid = uid
    ours, theirs = socket.socketpair()
    with ours, theirs:
        found = subprocess.run(
            [sys.executable, "-I", "-c", _CONNECT, path],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            user=uid,
            group=gid,
            extra_groups=[],
            timeout=_TIMEOUT,
            check=False,
        )
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if not descriptors:
        reason = found.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise OSError(errno.ECONNREFUSED, f"as uid {uid}: {reason[:200]}")
    return socket.socket(fileno=descriptors[0])
