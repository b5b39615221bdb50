"""The agent is put into a guest over SSH and by a serial console, and answers there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket as sockets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agents import Host, ended
from tests.sshd import end_masters, serving
from tests.terminals import console

from reflexarc.errors import OperationRejectedError
from reflexarc.inventory import entries
from reflexarc.machine.capabilities import Capabilities
from reflexarc.machine.guard import Guard
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy
from reflexarc.runs import archive
from reflexarc.runs.installing import NAME, ByConsole, Installed, Plan, install
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher
from reflexarc_wire.replies import PingReply
from reflexarc_wire.requests import Ping


@pytest.fixture(scope="module")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("agent") / NAME
    assert archive.build(path) < 500_000
    return path.read_bytes()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home folder; the agent that was started from it is ended."""
    folder = tmp_path / "home"
    folder.mkdir()
    yield folder
    pid = started(folder)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        assert ended(pid)


def started(home: Path) -> int | None:
    note = home / ".local/share/reflexarc" / f"{NAME}.pid"
    return int(note.read_text().split()[0]) if note.exists() else None


def answers(path: Path) -> bool:
    with sockets.socket(sockets.AF_UNIX) as stream:
        stream.connect(str(path))
        return isinstance(Host(stream).ask(Ping()), PingReply)


class Command:
    """The command line, on a host of its own."""

    def __init__(self, folder: Path, table: dict[str, object]) -> None:
        self.inventory = folder / "reflexarc.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        self.inventory.write_text(
            "\n".join(['[machines.guest]\ndrivers = ["ssh"]\n[machines.guest.ssh]', *lines])
        )
        self.state = folder / "state"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "reflexarc",
                "agent",
                "install",
                "--inventory",
                str(self.inventory),
                *arguments,
            ],
            env={**os.environ, "REFLEXARC_STATE": str(self.state)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture
def command(tmp_path: Path, home: Path) -> Iterator[Command]:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with serving(folder, home=home) as server:
        command = Command(tmp_path, server.table())
        yield command
        for state_dir in command.state.glob("machines/*"):
            end_masters(state_dir)


def test_over_ssh_it_is_copied_once_and_started_anew(command: Command, home: Path, tmp_path: Path) -> None:
    socket = tmp_path / "agent.sock"
    arguments = ("guest", "--user", "--unix", str(socket), "--json")
    first = command.run(*arguments)
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert (told["via"], told["copied"], told["started_by"]) == ("ssh", True, "itself")
    assert 'transport = "unix"' in told["inventory"]
    assert answers(socket)
    before = started(home)
    assert before is not None
    again = json.loads(command.run(*arguments).stdout)
    assert (again["copied"], again["digest"]) == (False, told["digest"])
    assert ended(before)
    assert answers(socket)


def test_the_lines_for_the_inventory_reach_it_over_ssh_alone(command: Command) -> None:
    done = command.run("guest", "--user", "--json")
    assert done.returncode == 0, done.stderr
    _, _, table = command.inventory.read_text().partition("[machines.guest.ssh]")
    command.inventory.write_text(f"{json.loads(done.stdout)['inventory']}\n[machines.guest.ssh]{table}")
    assert entries.load(command.inventory).entry("guest").drivers == ("agent", "ssh")
    doctor = subprocess.run(
        [sys.executable, "-m", "reflexarc", "doctor", "guest", "--json", "--inventory", str(command.inventory)],
        env={**os.environ, "REFLEXARC_STATE": str(command.state)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    findings = json.loads(doctor.stdout)["machines"]["guest"]
    assert [one["severity"] for one in findings if one["check"] == "agent"][:1] == ["ok"], doctor.stdout


def test_a_dry_run_reaches_nobody(command: Command) -> None:
    text = command.inventory.read_text()
    command.inventory.write_text(text.replace('"127.0.0.1"', '"nowhere.invalid"'))
    done = command.run("guest", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "by ssh" in done.stdout
    assert "install --start --system --vsock" in done.stdout
    advised = done.stdout.partition(":\n\n")[2]
    assert 'drivers = ["agent", "ssh"]' in advised
    assert "enabled = true" in advised


def test_an_agent_that_does_not_start_is_told(command: Command) -> None:
    done = command.run("guest", "--user", "--", "--tcp", "203.0.113.1:1")
    assert done.returncode == 1
    assert "the guest refused" in done.stderr
    assert "token" in done.stderr


def test_an_agent_that_ends_at_once_is_told_with_its_last_words(
    command: Command, home: Path, tmp_path: Path
) -> None:
    done = command.run("guest", "--user", "--unix", str(tmp_path / ("x" * 200)))
    assert done.returncode == 1
    assert "AF_UNIX path too long" in done.stderr


def test_by_the_console_it_arrives_whole(
    tmp_path: Path, home: Path, agent_file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    socket = tmp_path / "agent.sock"

    def tell(text: str) -> None:
        told.append(text)

    async def by_console(shell: str, path: str) -> Installed:
        async with console(shell) as real:
            machine = Machine("guest", Capabilities(console=real), Guard("guest", Policy()))
            async with Watcher(machine.sensed, Ladder(load_recognisers()), "guest") as watcher:
                plan = Plan(agent_file, system=False, options=("--unix", path))
                return await install(ByConsole(machine, watcher), "guest", plan, tell)

    told: list[str] = []
    done = asyncio.run(by_console("dash -i", str(socket)))
    assert (done.copied, done.started_by) == (True, "itself")
    assert Path(done.path).read_bytes() == agent_file
    assert answers(socket)
    shares = [line.split(", ")[1] for line in told if line.startswith("copying by the console")]
    assert len(shares) > 3
    assert len({*shares}) == len(shares)


def test_a_guest_without_python_is_told(
    tmp_path: Path, agent_file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").symlink_to("/bin/sh")

    async def by_console() -> None:
        async with console("sh -i") as real:
            machine = Machine("guest", Capabilities(console=real), Guard("guest", Policy()))
            async with Watcher(machine.sensed, Ladder(load_recognisers()), "guest") as watcher:
                await install(
                    ByConsole(machine, watcher), "guest", Plan(agent_file, True, ()), lambda _: None
                )

    with pytest.raises(OperationRejectedError, match="install Python 3"):
        asyncio.run(by_console())


def tried(shell: str, agent: bytes) -> list[str]:
    """Install for the whole guest by a console; what is told of it."""
    told: list[str] = []

    async def by_console() -> None:
        async with console(shell) as real:
            machine = Machine("guest", Capabilities(console=real), Guard("guest", Policy()))
            async with Watcher(machine.sensed, Ladder(load_recognisers()), "guest") as watcher:
                plan = Plan(agent, True, ("--vsock",))
                await install(ByConsole(machine, watcher), "guest", plan, told.append)

    asyncio.run(by_console())
    return told


def test_where_nobody_is_logged_in_nothing_is_typed(tmp_path: Path, agent_file: bytes) -> None:
    login = tmp_path / "login"
    login.write_text(f'stty -echo; printf "lab login: "; exec cat >{tmp_path / "typed"}\n')
    with pytest.raises(OperationRejectedError, match="nobody is logged in"):
        tried(f"sh {login}", agent_file)
    assert (tmp_path / "typed").read_text() == ""


def test_a_console_at_which_nothing_answers_is_told(tmp_path: Path, agent_file: bytes) -> None:
    deaf = tmp_path / "deaf"
    deaf.write_text("stty -echo; exec cat >/dev/null\n")
    with pytest.raises(OperationRejectedError, match="nothing answers at its serial console"):
        tried(f"sh {deaf}", agent_file)


def test_who_is_not_root_is_told_before_anything_is_copied(agent_file: bytes) -> None:
    with pytest.raises(OperationRejectedError, match="who came in is nobody"):
        tried("setpriv --reuid nobody --regid nogroup --clear-groups dash -i", agent_file)
    assert not Path("/usr/local/lib/reflexarc").exists()


def test_the_inventory_knows_the_driver(command: Command) -> None:
    assert entries.load(command.inventory).entry("guest").drivers == ("ssh",)
