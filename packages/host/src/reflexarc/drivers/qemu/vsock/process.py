"""Starts the device's process so that it outlives its starter, finds it again, and stops it.

`vsock.pid` in the machine's folder is locked for as long as the process lives; `vsock.log` says what it had to say.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from reflexarc.drivers.qemu import private
from reflexarc.machine.lock import FileLock

PROGRAM = "reflexarc.drivers.qemu.vsock"
# What the process inherits: the lock, and its two listening sockets.
LOCK, FRONT_ENDS, PROGRAMS = 3, 4, 5
PID_FILE, LOG_FILE = "vsock.pid", "vsock.log"
# Host programs connect to the first, QEMU to the second.
SOCKET, FRONT_END_SOCKET = "vsock.sock", "vsock-qemu.sock"
# The longest name beside them: what listens for the guest.
LONGEST_SOCKET = f"{SOCKET}_4294967295"
_BACKLOG = 128
_STOP_TIMEOUT = 5.0


def start(folder: Path, sockets: Path) -> int:
    """Start the process for the machine in `folder` and return its number; QEMU may connect at once.

    Raises OSError. The caller sees to it that nobody else starts it at the same time.
    """
    with ExitStack() as stack:
        lock = os.open(folder / PID_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _reap(os.pread(lock, 32, 0))
        os.ftruncate(lock, 0)
        listeners = [stack.enter_context(_listening(sockets / name)) for name in (FRONT_END_SOCKET, SOCKET)]
        pid = _spawn(
            [sys.executable, "-P", "-m", PROGRAM, str(folder), str(sockets / SOCKET)],
            [lock, *(listener.fileno() for listener in listeners)],
            folder / LOG_FILE,
        )
        os.pwrite(lock, str(pid).encode(), 0)
        return pid


def running(folder: Path) -> int | None:
    """The number of the machine's process, None where there is none."""
    holder = FileLock(folder / PID_FILE).holder()
    return int(holder) if holder is not None and holder.isdigit() else None


def stop(folder: Path) -> None:
    """End the machine's process and return when it is gone; does nothing where there is none."""
    pid = running(folder)
    if pid is None:
        return
    deadline = time.monotonic() + _STOP_TIMEOUT
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while running(folder) == pid:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _reap(kept: bytes) -> None:
    """Leave no zombie behind of an earlier process that this one started; `kept` is what its pid file says."""
    if kept.isdigit():
        with suppress(ChildProcessError, OverflowError):
            os.waitpid(int(kept), os.WNOHANG)


def _listening(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _spawn(argv: list[str], inherited: list[int], log: Path) -> int:
    with ExitStack() as stack:
        # Copies far above what they become, so that none of them is overwritten by another.
        copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in inherited]
        for copy in copies:
            stack.callback(os.close, copy)
        output = stack.enter_context(open(log, "wb", opener=private.opener))
        return os.posix_spawn(
            argv[0],
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
                *((os.POSIX_SPAWN_DUP2, copy, place) for place, copy in enumerate(copies, LOCK)),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
        )
