"""The agent on the two ends of an SSH session, without a port or a socket of its own."""

from __future__ import annotations

import getpass
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.agents import PATIENCE, Host, Outcome, ended, environment

from reflexarc_wire.frames import EndOfInput, Exit, Stdin
from reflexarc_wire.replies import PingReply
from reflexarc_wire.requests import Exec, Ping

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
"""


@dataclass(frozen=True)
class Ssh:
    """How to run a command over SSH, and the agent's file."""

    options: list[str]
    archive: Path

    @contextmanager
    def host(self) -> Iterator[Host]:
        """Start an agent at the other end, and be its host."""
        ours, theirs = socket.socketpair()
        program = shlex.join([sys.executable, "-I", str(self.archive), "--stdio", "--headless"])
        with theirs:
            process = subprocess.Popen(["ssh", *self.options, program], stdin=theirs, stdout=theirs)
        try:
            with closing(Host(ours)) as host:
                yield host
        finally:
            assert process.wait(PATIENCE) in (0, 255)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ssh]:
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    archive = folder / "reflexarc-agent.pyz"
    subprocess.run(
        [sys.executable, "-m", "reflexarc_agent.archive", str(archive)], env=environment(), check=True
    )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    server = subprocess.Popen(
        [sshd, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    options = [
        *("-F", "none", "-p", str(port), "-i", str(folder / "user_key"), "-o", "BatchMode=yes"),
        *(
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            f"UserKnownHostsFile={folder}/known",
            "-o",
            "LogLevel=ERROR",
        ),
        f"{getpass.getuser()}@127.0.0.1",
    ]
    try:
        assert "listening" in server.stderr.readline()
        yield Ssh(options, archive)
    finally:
        server.terminate()
        server.wait(PATIENCE)
        server.stderr.close()


def test_any_bytes_go_both_ways(ssh: Ssh) -> None:
    data = random.Random(8).randbytes(1_000_000)
    frames = [Stdin(data[start : start + 70_000]) for start in range(0, len(data), 70_000)]
    with ssh.host() as host:
        assert isinstance(host.ask(Ping()), PingReply)
        found = host.run(Exec(command="cat; echo end >&2; exit 3", raw=True), *frames, EndOfInput())
        assert found == Outcome(data, b"end\n", Exit(3))


def test_a_session_that_breaks_takes_its_command_along(ssh: Ssh) -> None:
    with ssh.host() as host:
        host.start(Exec(command="echo $$; exec sleep 1000"))
        child = int(host.line())
    assert ended(child)
