"""Who runs an installed agent: systemd or, where there is none, the agent itself in the background."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Dict, Iterator, Optional, Sequence, Tuple

from reflexarc_agent.readiness import READY

SERVICE = "reflexarc-agent.service"
_TIMEOUT = 40.0
_END_TIMEOUT = 20.0
_LAST_WORDS = 1000
_LOOK = 0.1
_READY = "ready\n"


class Systemd:
    """The service manager of the system or of a user; manager: how `systemctl` is called for it."""

    name = "systemd"

    def __init__(self, manager: Sequence[str]) -> None:
        self._manager = manager

    def reload(self) -> bool:
        """Have it read its units, and tell whether it answers at all."""
        return self._ask("daemon-reload")[0] == 0

    def pid(self) -> Optional[int]:
        """The agent's process once it is ready, None while there is none."""
        status, said = self._ask("show", "--property=ActiveState,MainPID", SERVICE)
        told = dict(line.partition("=")[::2] for line in said.splitlines())
        pid = told.get("MainPID", "0")
        ready = status == 0 and told.get("ActiveState") == "active" and pid.isdigit()
        return int(pid) or None if ready else None

    def start(self, options: Sequence[str] = ()) -> None:
        """Start it anew, and return once it is ready; raises OSError with its last words."""
        status, said = self._ask("restart", SERVICE)
        if status:
            words = self._ask("status", "--no-pager", "--lines=3", SERVICE)[1].strip() or said
            raise OSError(f"systemd can't start it: {words[-_LAST_WORDS:]}")

    def end(self) -> None:
        self._ask("stop", SERVICE)

    def _ask(self, *arguments: str) -> Tuple[int, str]:
        try:
            found = subprocess.run(
                [*self._manager, *arguments],
                env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", timeout=_TIMEOUT, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, str(error)
        return found.returncode, found.stdout


class Background:
    """An agent that nobody watches over; a file beside its archive, locked while it lives, names its process."""

    name = "itself"

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._note = archive.with_name(f"{archive.name}.pid")
        self._log = archive.with_name(f"{archive.name}.log")

    def pid(self) -> Optional[int]:
        """The agent's process once it is ready, None while there is none."""
        pid, ready = self._noted()
        return pid if ready else None

    def _noted(self) -> Tuple[Optional[int], bool]:
        """Its process, None where that has ended, and whether it said that it is ready."""
        with suppress(OSError, ValueError), self._note.open("r+") as note:
            try:
                fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, _, ready = note.read(40).partition("\n")
                return int(pid), ready == _READY
        return None, False

    def start(self, options: Sequence[str]) -> None:
        """Start it anew, and return once it is ready; raises OSError with its last words."""
        self.end()
        with self._note.open("a+") as note, self._log.open("wb") as log:
            os.fchmod(log.fileno(), 0o600)
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with tempfile.TemporaryDirectory() as folder, closing(_bound(f"{folder}/notify")) as told:
                self._start(options, note.fileno(), log.fileno(), told)

    def end(self) -> None:
        """End the one that runs; raises OSError where it can't be."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid, until = self._noted()[0], time.monotonic() + _END_TIMEOUT
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            while self._noted()[0] is not None and time.monotonic() < until:
                time.sleep(_LOOK)

    def forget(self) -> None:
        """Leave nothing behind of one that has ended."""
        for path in (self._note, self._log):
            with suppress(FileNotFoundError):
                path.unlink()

    def _start(self, options: Sequence[str], note: int, log: int, told: socket.socket) -> None:
        # The agent holds the pipe's other end, and the lock, as long as it lives.
        ended, alive = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, str(self._archive), *options],
                env={**os.environ, "NOTIFY_SOCKET": told.getsockname()}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, pass_fds=(note, alive),
            )  # fmt: skip
            os.close(alive)
            os.ftruncate(note, 0)
            os.write(note, b"%d\n" % process.pid)
            if not _is_ready(told, ended):
                words = self._log.read_text("utf-8", "replace")[-_LAST_WORDS:].strip()
                raise OSError(f"it does not start: {words or 'it says nothing'}")
            os.write(note, _READY.encode())
        finally:
            os.close(ended)


def ancestors() -> Iterator[int]:
    """This process, the one that started it, and so on."""
    pid = os.getpid()
    while pid > 1:
        yield pid
        try:
            told = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return
        pid = int(told.rpartition(")")[2].split()[1])


def _environment() -> Dict[str, str]:
    """The environment with the place of the user's manager, which not every way in tells."""
    place = f"/run/user/{os.getuid()}"
    return {**({"XDG_RUNTIME_DIR": place} if os.path.isdir(place) else {}), **os.environ}


def _bound(path: str) -> socket.socket:
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(path)
    return told


def _is_ready(told: socket.socket, ended: int) -> bool:
    """Wait for word from the agent; whether it came before its end, and in time."""
    poll = select.poll()
    poll.register(told, select.POLLIN)
    poll.register(ended, select.POLLIN)
    until = time.monotonic() + _TIMEOUT
    while (left := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            if fd == ended:
                return False
            if READY in told.recv(4096).split(b"\n"):
                return True
    return False
