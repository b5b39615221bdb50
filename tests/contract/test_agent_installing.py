"""The agent installs itself: what it writes, whether systemd takes it, and that it can be undone."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import agents
from tests.agents import PATIENCE, Host, ended, environment, running

from reflexarc_agent.installing import desktop_entry, unit
from reflexarc_wire.requests import Exec

# What each of systemd and the desktop entries must be kept from reading as something else.
AWKWARD = ("a b", 'say "hi"', "50%", "$HOME", "back\\slash", "`id`", "'single'", "ü")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agents.archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def run(archive: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the agent's file as a user whose systemd isn't running."""
    bare = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "-I", "-W", "error", str(archive), *arguments],
        env=bare, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def files(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())


INSTALLED = [
    ".config/autostart/reflexarc-agent.desktop",
    ".config/systemd/user/default.target.wants/reflexarc-agent.service",
    ".config/systemd/user/reflexarc-agent.service",
    ".local/share/reflexarc/reflexarc-agent.pyz",
]


def test_it_installs_and_uninstalls_itself_for_a_user(archive: Path, home: Path) -> None:
    found = run(archive, home, "install", "--user", "--vsock", "--unix", "/run/x y.sock")
    assert (found.returncode, found.stderr) == (0, "")
    assert files(home) == INSTALLED
    installed = home / INSTALLED[3]
    assert installed.read_bytes() == archive.read_bytes()
    assert os.access(installed, os.X_OK)
    written = (home / INSTALLED[2]).read_text()
    assert f'ExecStart="{sys.executable}" "{installed}" "--vsock" "--unix" "/run/x y.sock"\n' in written
    assert (home / INSTALLED[1]).resolve() == (home / INSTALLED[2]).resolve()
    # From where it lies now it can be told otherwise.
    again = run(installed, home, "install", "--user", "--virtio-serial", "reflexarc")
    assert again.returncode == 0
    assert '"--virtio-serial" "reflexarc"\n' in (home / INSTALLED[2]).read_text()
    assert run(archive, home, "uninstall", "--user").returncode == 0
    assert files(home) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["install", "--vsock"], "one of the arguments --user --system is required"),
        (["install", "--user", "--system", "--vsock"], "not allowed with"),
        (["install", "--user"], "name how hosts reach the agent"),
        (["install", "--user", "--stdio"], "--stdio is for the host"),
        (["install", "--user", "--unix", "relative"], "must be an absolute path"),
        (["install", "--user", "--vsock", "--nonsense"], "unrecognized arguments"),
    ],
)
def test_what_would_not_start_is_not_installed(
    archive: Path, home: Path, arguments: list[str], words: str
) -> None:
    found = run(archive, home, *arguments)
    assert found.returncode == 2
    assert words in found.stderr
    assert files(home) == []


def test_only_the_one_file_can_install_itself(home: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "reflexarc_agent", "install", "--user", "--vsock"],
        env={**environment(), "HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    assert "agent build" in found.stderr
    assert files(home) == []


@pytest.mark.parametrize(
    ("target", "scope"), [("default.target", "--user"), ("multi-user.target", "--system")]
)
def test_systemd_takes_the_unit_and_reads_each_word_as_it_is(tmp_path: Path, target: str, scope: str) -> None:
    program = shutil.which("true")
    assert program is not None
    path = tmp_path / "reflexarc-agent.service"
    path.write_text(unit([program, *AWKWARD], target))
    checked = subprocess.run(
        ["systemd-analyze", scope, "--man=no", "verify", str(path)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_LOG_LEVEL": "warning"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert [line for line in checked.stderr.splitlines() if "reflexarc" in line] == []
    assert checked.returncode == 0, checked.stderr
    line = next(line for line in path.read_text().splitlines() if line.startswith("ExecStart="))
    words = shlex.split(line.removeprefix("ExecStart="))
    assert [word.replace("%%", "%").replace("$$", "$") for word in words] == [program, *AWKWARD]


def test_a_desktop_reads_each_word_of_the_entry_as_it_is() -> None:
    gio = """
import sys
from gi.repository import GLib
entry = GLib.KeyFile()
text = sys.stdin.read()
entry.load_from_data(text, len(text.encode()), 0)
ok, words = GLib.shell_parse_argv(entry.get_string("Desktop Entry", "Exec"))
print("\\0".join(words).replace("%%", "%"), end="")
"""
    found = subprocess.run(
        ["/usr/bin/python3", "-c", gio],
        input=desktop_entry(AWKWARD),
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(found.stdout.split("\0")) == AWKWARD


def process(archive: Path, home: Path) -> int | None:
    """The agent's process, by its own word."""
    said = run(archive, home, "status", "--user")
    word, _, pid = said.stdout.strip().partition(" ")
    assert (said.returncode, word) in ((0, "running"), (1, "stopped"))
    return int(pid) if pid else None


def test_where_no_systemd_runs_it_is_started_in_the_background(archive: Path, home: Path) -> None:
    path = home / "agent.sock"
    arguments = ("install", "--user", "--start", "--unix", str(path))
    assert process(archive, home) is None
    assert run(archive, home, *arguments).stdout.endswith("\nstarted by itself\n")
    first = process(archive, home)
    assert first is not None
    assert run(archive, home, *arguments).returncode == 0
    second = process(archive, home)
    assert second not in (None, first)
    assert ended(first)
    # Asked by a command of the one that runs: the answer goes out, and another takes its place.
    installed = home / INSTALLED[3]
    with connected(path) as host:
        outcome = host.run(
            Exec(argv=(sys.executable, "-I", str(installed), *arguments), env={"HOME": str(home)})
        )
    assert outcome.stdout.endswith(b"starting anew %d by itself\n" % second)
    assert ended(second)
    deadline = time.monotonic() + PATIENCE
    while (third := process(archive, home)) is None:
        assert time.monotonic() < deadline
    with connected(path) as host:
        assert host.run(Exec(argv=("printenv", "NOTIFY_SOCKET"))).stdout == b""
    assert run(archive, home, "uninstall", "--user").returncode == 0
    assert ended(third)
    assert files(home) == []


@contextmanager
def connected(path: Path) -> Iterator[Host]:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(path))
        yield Host(stream)


def test_an_agent_that_does_not_start_leaves_its_last_words(archive: Path, home: Path) -> None:
    found = run(archive, home, "install", "--user", "--start", "--unix", f"/{'x' * 200}")
    assert found.returncode == 1
    assert "can't install: it does not start: " in found.stderr
    assert "AF_UNIX path too long" in found.stderr
    assert process(archive, home) is None


def test_it_tells_its_starter_when_hosts_can_come(archive: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(PATIENCE)
        with running(tmp_path / "agent.sock", extra={"NOTIFY_SOCKET": str(tmp_path / "notify")}):
            assert told.recv(100) == b"READY=1"


def test_where_no_systemd_runs_the_autostart_entry_starts_the_agent_itself(archive: Path, home: Path) -> None:
    path = home / "agent.sock"
    bare = {"HOME": str(home), "PATH": os.environ["PATH"]}
    arguments = ["autostart", "--unix", str(path), "--headless"]
    with subprocess.Popen(
        [sys.executable, "-I", str(archive), *arguments], env=bare, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"reflexarc-agent: listening on unix:{path}\n"
        process.terminate()
        assert process.wait(PATIENCE) == 0
