"""Starts QEMU so that it outlives its starter, finds it again, and stops it.

What is kept in a machine's state folder: `qemu.pid` (written and locked by QEMU for as long as it lives, so a
stale one can't be taken for a running machine whatever process has its number now), `vm.json`, `qemu.log`,
`serial.log`, sockets, and the lock files of those who use them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reflexarc.drivers.qemu import command, pidfile, private
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.firmware import uefi
from reflexarc.drivers.qemu.vsock import plugging, process
from reflexarc.errors import ConfigError, ConnectError, ConnectionLostError
from reflexarc.machine.lock import FileLock

START_TIMEOUT = 20.0
GREETING_TIMEOUT = 10.0
# What a running machine's boot order was changed to.
BOOT_FILE = "boot.json"
# What the serial console said in this start, and in the one before where that was not stopped but ended.
CONSOLE_LOGS = ("serial.log", "serial.1.log")
TERMINATE_TIMEOUT = 5.0
REAP_TIMEOUT = 1.0
# The size of sun_path on macOS, the smaller of the two, less the final NUL and our longest name.
_LONGEST_FOLDER = 103 - len(f"/{process.LONGEST_SOCKET}")
_LOG_BYTES = 4096

_log = logging.getLogger("reflexarc.qemu")


@dataclass(frozen=True)
class Vm:
    """A running QEMU. `folder` is its state folder, `sockets` where its sockets are, `accel` kvm or tcg.

    cid: the guest's number at its vsock device, None where it has none.
    """

    machine: str
    folder: Path
    sockets: Path
    pid: int
    accel: str
    arguments: tuple[str, ...]
    cid: int | None = None

    @property
    def vsock(self) -> Path | int | None:
        """Where an agent in its guest is reached by vsock, None where it has no such device.

        A socket that takes `CONNECT <port>`, see `vsock`, or the guest's CID where the host's kernel does it.
        """
        return self.sockets / process.SOCKET if self.cid == plugging.USER_SPACE else self.cid

    @property
    def monitors(self) -> tuple[Path, ...]:
        return tuple(self.sockets / f"qmp-{number}.sock" for number in range(command.MONITORS))

    @property
    def greeting_timeout(self) -> float:
        return GREETING_TIMEOUT

    @property
    def log(self) -> Path:
        return self.folder / "qemu.log"

    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        if not self.folder.is_dir():
            return False
        with _alone(self.folder):
            return _pid(self.folder) == self.pid

    def stop(self, *, keep_console: bool = False) -> None:
        """End QEMU, power off or on, and return when it is gone; does nothing where it already is.

        keep_console: leave the log of the serial console, which may tell secrets, in the folder.
        """
        with _alone(self.folder):
            for number, patience in ((signal.SIGTERM, TERMINATE_TIMEOUT), (signal.SIGKILL, None)):
                if _pid(self.folder) != self.pid:
                    break
                os.kill(self.pid, number)
                _await_end(self, patience)
            _reap(self.pid)
            process.stop(self.folder)
            if not keep_console:
                for name in CONSOLE_LOGS:
                    (self.folder / name).unlink(missing_ok=True)
            if self.sockets != self.folder:
                shutil.rmtree(self.sockets, ignore_errors=True)

    def lost(self, operation: str = "") -> ConnectionLostError:
        """The error for a connection to this QEMU that broke; reads its log."""
        if self.alive():
            problem = "QEMU closed the connection"
        else:
            _reap(self.pid)
            problem = f"QEMU (process {self.pid}) has ended"
        return ConnectionLostError(
            f"{problem}; {_last_words(self.log)}; look at the machine before repeating anything",
            machine=self.machine,
            operation=operation,
        )

    def unreachable(self, why: str) -> ConnectError:
        """The error for this QEMU when it didn't let anybody in."""
        return ConnectError(
            f"QEMU (process {self.pid}) can't be reached ({why}); is it stopped or hanging? "
            f"its log is {self.log}; end that process to start afresh",
            machine=self.machine,
        )


def launch(config: QemuConfig, *, machine: str, state_dir: Path) -> Vm:
    """Return the machine running in `state_dir`, starting it with the power off where there is none.

    Raises ConfigError when the program is missing, ConnectError when QEMU does not come up.
    """
    config = replace(config, binary=_program(config, machine))
    try:
        folder = _private(state_dir)
        with _alone(folder):
            running = _running(machine, folder)
            if running is None:
                return _start(config, machine, folder)
        _compare(running, config)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(
            f"QEMU can't be started: {error}; check {config.binary} and the folder {state_dir}",
            machine=machine,
        ) from error
    return running


def find(machine: str, state_dir: Path) -> Vm | None:
    """Return the machine running in `state_dir`, None where there is none."""
    if not state_dir.is_dir():
        return None
    with _alone(state_dir.absolute()):
        return _running(machine, state_dir.absolute())


def _compare(running: Vm, config: QemuConfig) -> None:
    cid = (running.cid or plugging.choose()) if config.vsock else None
    wanted = _arguments(config, running.machine, running.folder, running.sockets, running.accel, cid)
    if tuple(wanted) != running.arguments:
        _log.warning(
            "%s: runs with other settings than its inventory entry has now; they count from the next start",
            running.machine,
        )


def _arguments(
    config: QemuConfig, machine: str, folder: Path, sockets: Path, accel: str, cid: int | None
) -> list[str]:
    firmware = None if config.firmware == "bios" else uefi(config.firmware, machine=machine, folder=folder)
    return command.arguments(
        config, machine=machine, folder=folder, sockets=sockets, accel=accel, firmware=firmware, cid=cid
    )


def _private(state_dir: Path) -> Path:
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    state_dir.chmod(0o700)
    return state_dir.absolute()


def _alone(folder: Path) -> FileLock:
    """Keeps others from starting, stopping or looking for this machine's QEMU."""
    return FileLock(folder / "launch.lock")


def _pid(folder: Path) -> int | None:
    """The number of the QEMU that holds the lock on its pid file; None where none does."""
    return pidfile.holder(folder / "qemu.pid")


def _running(machine: str, folder: Path) -> Vm | None:
    pid = _pid(folder)
    if pid is None:
        return None
    try:
        kept = json.loads((folder / "vm.json").read_bytes())
        return Vm(
            machine=machine,
            folder=folder,
            sockets=Path(kept["sockets"]),
            pid=pid,
            accel=str(kept["accel"]),
            arguments=tuple(str(part) for part in kept["arguments"]),
            cid=None if kept.get("cid") is None else int(kept["cid"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConnectError(
            f"QEMU runs as process {pid}, but {folder / 'vm.json'} can't be read ({error}); "
            "end that process and try again",
            machine=machine,
        ) from error


def _start(config: QemuConfig, machine: str, folder: Path) -> Vm:
    accel = command.accelerator(config)
    sockets = _socket_folder(folder)
    cid = plugging.choose() if config.vsock else None
    parts = _arguments(config, machine, folder, sockets, accel, cid)
    process.stop(folder)
    _clear(folder, sockets)
    kept = {"sockets": str(sockets), "accel": accel, "arguments": parts, "cid": cid}
    private.write(folder / "vm.json", json.dumps(kept, indent=1))
    try:
        if cid == plugging.USER_SPACE:
            process.start(folder, sockets)
        pid = _spawn(config.binary, parts, folder / "qemu.log")
        vm = Vm(machine, folder, sockets, pid, accel, tuple(parts), cid)
        try:
            _await_ready(vm)
        except BaseException:
            _abandon(vm.pid)
            raise
    except BaseException:
        process.stop(folder)
        raise
    return vm


def _program(config: QemuConfig, machine: str) -> str:
    program = shutil.which(config.binary)
    if program is None:
        raise ConfigError(
            f"machine {machine!r}, qemu.binary: there is no program {config.binary!r}; "
            "install QEMU (Debian: qemu-system-x86) or name its path"
        )
    return program


def _socket_folder(folder: Path) -> Path:
    if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
        return folder
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    fits = os.path.isdir(base) and len(os.fsencode(base)) + len("/reflexarc-XXXXXXXX") <= _LONGEST_FOLDER
    return _remembered(folder) or Path(tempfile.mkdtemp(prefix="reflexarc-", dir=base if fits else "/tmp"))  # noqa: S108


def _remembered(folder: Path) -> Path | None:
    """The short folder that an earlier start made, if it is still there and nobody else's."""
    try:
        path = Path(json.loads((folder / "vm.json").read_bytes())["sockets"])
        status = path.lstat()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return path if ours else None


def _clear(folder: Path, sockets: Path) -> None:
    for name in ("qemu.pid", BOOT_FILE):
        (folder / name).unlink(missing_ok=True)
    for path in (*sockets.glob("*.sock"), *folder.glob("shot-*.ppm")):
        path.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        (folder / CONSOLE_LOGS[0]).rename(folder / CONSOLE_LOGS[1])


def _spawn(program: str, parts: list[str], log: Path) -> int:
    # QEMU makes its files for everybody to read.
    alone = ["/bin/sh", "-c", 'umask 077; exec "$@"', "sh", program, *parts]
    return os.posix_spawn(
        alone[0],
        alone,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM),
    )


def _await_ready(vm: Vm) -> None:
    """Wait for the greeting on the last monitor: by then QEMU's main loop runs."""
    path = str(vm.sockets / f"qmp-{command.MONITORS - 1}.sock")
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if _ended(vm.pid):
            raise ConnectError(f"QEMU did not start; {_last_words(vm.log)}", machine=vm.machine)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(0.5)
            with suppress(OSError):
                probe.connect(path)
                if probe.recv(1):
                    return
        time.sleep(0.01)
    raise ConnectError(
        f"QEMU did not answer within {START_TIMEOUT:.0f} s and was ended; {_last_words(vm.log)}",
        machine=vm.machine,
    )


def _ended(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG)[0] == child


def _abandon(child: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _await_end(vm: Vm, patience: float | None) -> None:
    deadline = None if patience is None else time.monotonic() + patience
    while _pid(vm.folder) == vm.pid and (deadline is None or time.monotonic() < deadline):
        time.sleep(0.01)


def _reap(pid: int) -> None:
    """Leave no zombie behind of a QEMU that we started and that has ended."""
    with suppress(ChildProcessError):
        deadline = time.monotonic() + REAP_TIMEOUT
        while not _ended(pid) and time.monotonic() < deadline:
            time.sleep(0.01)


def _last_words(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-5:]
    except OSError:
        lines = []
    said = " | ".join("".join(c if c.isprintable() else " " for c in line) for line in lines)
    return f"its last words, from {log}: {said}" if said else f"its log {log} is empty"
