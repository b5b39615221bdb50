"""A command as a process group of its own, its descriptors non-blocking, reaped when the agent says so."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Dict, List, Optional, Type, Union

from reflexarc_agent.accounts import Account, account
from reflexarc_wire.frames import Stderr, Stdout
from reflexarc_wire.requests import Exec
from reflexarc_wire.values import Terminal

Output = Union[Type[Stdout], Type[Stderr]]
# A session leader without a terminal gets the one it opens first; so no code of ours runs between fork and exec.
_TAKE_TERMINAL = 'exec "$@" <>"$0" >&0 2>&0'
_KILL_TIMEOUT = 5.0
_PIPE_SIZE = 1 << 18
# Python names it from 3.10 on. Source: linux/fcntl.h, F_SETPIPE_SZ.
_SET_PIPE_SIZE = 1031


@dataclass
class _Streams:
    """The child's three descriptors, and the ends that stay here."""

    theirs: List[int]
    stdin: int
    outputs: Dict[int, Output]
    terminal: Optional[str] = None


class Child:
    """A started command.

    stdin is None once it is closed, `outputs` loses a descriptor at its end. `exited_fd` is at its end once the
    process has exited; until `reap` it stays a zombie, so that its group's number can't become another's.
    """

    def __init__(self, process: subprocess.Popen[bytes], streams: _Streams, exited_fd: int) -> None:
        self._process = process
        self._terminal_fd = streams.theirs[0] if streams.terminal else None
        self._reaped = False
        self.stdin: Optional[int] = streams.stdin
        self.outputs = streams.outputs
        self.has_terminal = streams.terminal is not None
        self.exited_fd = exited_fd

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; that it is gone already is no error."""
        if not self._reaped:
            with suppress(OSError):
                os.killpg(self._process.pid, number)

    def resize(self, size: Terminal) -> None:
        if self.has_terminal and self.stdin is not None:
            _set_size(self.stdin, size)

    def close_stdin(self) -> None:
        """End its input; on a terminal that is the end-of-file character, at the start of a line."""
        if self.stdin is not None and not self.has_terminal:
            os.close(self.stdin)
            self.stdin = None

    def close_output(self, fd: int) -> None:
        del self.outputs[fd]
        if fd != self.stdin:
            os.close(fd)

    def unread(self) -> Dict[int, int]:
        """Return how many bytes wait in each output; called at the exit, that is all the process has written.

        A terminal's end can be told only once the agent's own hold on it is gone, so that ends here.
        """
        if self._terminal_fd is not None:
            os.close(self._terminal_fd)
            self._terminal_fd = None
        counts = {fd: fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) for fd in self.outputs}
        return {fd: struct.unpack("=i", count)[0] for fd, count in counts.items()}

    def reap(self) -> int:
        """Reap the exited process and return its code, 128 + n for one that signal n ended."""
        code = self._process.wait()
        self._reaped = True
        return code if code >= 0 else 128 - code

    def end(self) -> None:
        """Kill what is left of the group unless it was reaped, and let go of everything."""
        if not self._reaped:
            self.signal(signal.SIGKILL)
            # Reaped only once told: the thread that waits must not find the number to be another process's.
            if _is_readable(self.exited_fd, _KILL_TIMEOUT):
                self.reap()
        ours = {fd for fd in (self.stdin, self._terminal_fd, self.exited_fd, *self.outputs) if fd is not None}
        for fd in ours:
            os.close(fd)


def start(request: Exec) -> Child:
    """Start a command; raises OSError where the system can't, RefusalError where the account can't be taken on."""
    owner = account(request.user)
    with ExitStack() as undo:
        streams = _terminal(request.pty, owner) if request.pty else _pipes()
        for fd in {streams.stdin, *streams.outputs}:
            undo.callback(os.close, fd)
            os.set_blocking(fd, False)
        with ExitStack() as theirs:
            for fd in streams.theirs:
                theirs.callback(os.close, fd)
            process = _spawn(request, owner, streams)
            if streams.terminal is not None:
                theirs.pop_all()
        exited_fd = _watch(process)
        undo.pop_all()
    return Child(process, streams, exited_fd)


def _watch(process: subprocess.Popen[bytes]) -> int:
    """Return a descriptor that is at its end once the process has exited; kills it where there can't be one."""
    try:
        exited_fd, told = os.pipe()
        threading.Thread(target=_tell_exit, args=(process.pid, told), name="exit").start()
    except (OSError, RuntimeError) as error:
        process.kill()
        process.wait()
        raise OSError(errno.EAGAIN, f"can't watch over the command: {error}") from error
    return exited_fd


def _spawn(request: Exec, owner: Account, streams: _Streams) -> subprocess.Popen[bytes]:
    argv = list(request.argv or (owner.shell, "-c", request.command or ""))
    environment = {**owner.environment, **(request.env or {})}
    stdio = streams.theirs
    if streams.terminal is not None:
        _find(argv[0], environment.get("PATH"))
        argv = ["/bin/sh", "-c", _TAKE_TERMINAL, streams.terminal, *argv]
        environment.setdefault("TERM", "xterm")
        stdio = [subprocess.DEVNULL] * 3
    home = owner.home if os.path.isdir(owner.home) else "/"
    return subprocess.Popen(
        argv,
        stdin=stdio[0],
        stdout=stdio[1],
        stderr=stdio[2],
        env=environment,
        cwd=request.cwd or home,
        start_new_session=True,
        user=owner.uid if owner.other else None,
        group=owner.gid if owner.other else None,
        extra_groups=owner.groups if owner.other else None,
    )


def _find(program: str, path: Optional[str]) -> None:
    """Raise FileNotFoundError where a program isn't on the path; with a terminal its shell would only print it."""
    if "/" not in program and shutil.which(program, path=path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)


def _pipes() -> _Streams:
    with ExitStack() as undo:
        ends = []
        for _ in range(3):
            pair = os.pipe()
            ends.append(pair)
            for fd in pair:
                undo.callback(os.close, fd)
        undo.pop_all()
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = ends
    _widen(out_write)
    return _Streams([in_read, out_write, err_write], in_write, {out_read: Stdout, err_read: Stderr})


def _widen(pipe: int) -> None:
    """Give a pipe more room where the system lets us: fewer turns for the same bytes."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE_SIZE)


def _terminal(size: Terminal, owner: Account) -> _Streams:
    ours, theirs = os.openpty()
    try:
        _set_size(ours, size)
        if owner.other:
            os.fchown(theirs, owner.uid, -1)
        return _Streams([theirs], ours, {ours: Stdout}, os.ttyname(theirs))
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise


def _set_size(fd: int, size: Terminal) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.cols, 0, 0))


def _is_readable(fd: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def _tell_exit(pid: int, told: int) -> None:
    """Close `told` when the process has exited, leaving it to be reaped."""
    try:
        if sys.platform == "darwin":
            queue = select.kqueue()
            exited = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            with suppress(ProcessLookupError):
                queue.control([exited], 1)
            queue.close()
        else:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    finally:
        os.close(told)
