"""An OpenSSH server on a free port of loopback, with keys of its own, that lets the tests' account in."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reflexarc.drivers.ssh.config import SshConfig
from reflexarc.drivers.ssh.driver import open_driver
from reflexarc.machine.capabilities import Capabilities, Files, Shell

PATIENCE = 20.0
_SERVER = "/usr/sbin/sshd"


class Server:
    """A running server; `folder` holds its keys, `home` is the home folder of those who log in."""

    def __init__(self, folder: Path, port: int, home: Path) -> None:
        self.folder = folder
        self.port = port
        self.home = home
        self._process: subprocess.Popen[bytes] | None = None

    def table(self, **changes: object) -> dict[str, object]:
        """A machine's `ssh` table for it."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "identity_file": str(self.folder / "id"),
            "known_hosts": str(self.folder / "known_hosts"),
            "config": str(self.folder / "ssh_config"),
            **changes,
        }

    def config(self, **changes: object) -> SshConfig:
        return SshConfig.parse(self.table(**changes), machine="guest", folder=self.folder)

    def start(self) -> None:
        log = (self.folder / "log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [_SERVER, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), PATIENCE) as greeted:
                if greeted.recv(4) == b"SSH-":
                    return
        raise AssertionError((self.folder / "log").read_text())

    def suspend(self) -> None:
        """Let the connections that it serves hang; it goes on to take new ones."""
        assert self._process is not None
        for pid in _descendants(self._process.pid)[1:]:
            os.kill(pid, signal.SIGSTOP)

    def stop(self) -> None:
        """End the server and the connections that it serves."""
        if self._process is None:
            return
        for pid in _descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._process = None


@contextmanager
def serving(folder: Path, *settings: str, home: Path | None = None) -> Iterator[Server]:
    """Serve from a folder of its own, with further lines for the server's configuration."""
    if not Path(_SERVER).exists():
        raise RuntimeError("install openssh-server")
    server = Server(folder, _free_port(), home or folder / "home")
    server.home.mkdir(exist_ok=True)
    for name in ("host", "id"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    shutil.copy(folder / "id.pub", folder / "authorized_keys")
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {key}\n")
    (folder / "ssh_config").write_text("")
    lines = [
        "ListenAddress 127.0.0.1",
        f"Port {server.port}",
        f"HostKey {folder}/host",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        "PidFile none",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "StrictModes no",
        "PermitRootLogin prohibit-password",
        "MaxStartups 100",
        f"SetEnv HOME={server.home}",
        *settings,
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    # The server wants its folder for the unprivileged part of it.
    Path("/run/sshd").mkdir(exist_ok=True)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def masters(state_dir: Path) -> list[Path]:
    """The sockets of connections that are kept."""
    return list(state_dir.glob("ssh/*.ctl"))


def end_masters(state_dir: Path) -> None:
    """End the connections that a driver keeps."""
    for path in masters(state_dir):
        subprocess.run(
            ["ssh", "-F", "none", "-o", f"ControlPath={path.name}", "-O", "exit", "machine"],
            cwd=path.parent,
            capture_output=True,
            timeout=PATIENCE,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    """The process and all below it, the process first so that it starts no more."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            found += map(int, children)
    return found


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def ssh_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state folder of a machine whose connection is kept from test to test."""
    state_dir = tmp_path_factory.mktemp("ssh-state")
    yield state_dir
    end_masters(state_dir)


@pytest.fixture
def own_state(tmp_path: Path) -> Iterator[Path]:
    """The state folder of a machine that connects anew."""
    yield tmp_path / "state"
    end_masters(tmp_path / "state")


def inside(server: Server, state_dir: Path, **changes: object) -> tuple[Shell, Files]:
    """What the driver lends of the server's machine."""

    async def lent() -> Capabilities:
        async with open_driver(server.config(**changes), machine="guest", state_dir=state_dir) as lent:
            return lent

    found = asyncio.run(lent())
    assert found.shell is not None
    assert found.files is not None
    return found.shell, found.files
