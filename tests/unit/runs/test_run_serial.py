"""Commands on a serial console at which a real shell sits."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from hashlib import md5
from pathlib import Path

import pytest
from tests.played import SHELL, text
from tests.terminals import console

from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import Entry, ReplayScript
from reflexarc.machine.capabilities import Capabilities
from reflexarc.machine.guard import Guard
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy
from reflexarc.playbook.state import Outcome, Reason, RunState
from reflexarc.runs.journal import Journal
from reflexarc.runs.session import Session
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher

SHELLS = [
    name
    for name in ("dash -i", "bash --norc --noediting -i", "bash --norc -i", "busybox sh -i")
    if shutil.which(name.split()[0])
]


def run(tmp_path: Path, program: str, *commands: str, timeout: float = 20, **args: object) -> RunState:
    steps = [
        {
            "name": f"step {i}",
            "action": "run_serial",
            "args": {"command": command, "timeout": timeout, **args},
            "register": f"r{i}",
        }
        for i, command in enumerate(commands)
    ]

    async def play() -> RunState:
        async with console(program) as real:
            played = open_replay(ReplayScript(entries=(Entry(frame=text(SHELL)),), speed=1.0), machine="lab")
            recognisers = load_recognisers()
            lent = Capabilities(power=played.power, screen=played.screen, console=real)
            machine = Machine("lab", lent, Guard("lab", Policy()))
            journal = Journal(tmp_path / "runs.sqlite")
            lock = MachineLock(tmp_path / "lab.lock", "lab", "a test")

            async def at_end(run_id: str) -> None:
                lock.release()

            async with Watcher(machine.sensed, Ladder(recognisers), "lab") as watcher:
                session = Session(
                    machine,
                    watcher,
                    journal,
                    recognisers.phases,
                    tmp_path / "runs",
                    lock,
                    at_end,
                    lambda _: None,
                )
                begun = await session.begin({"name": "x", "steps": steps})
                state = await begun.drive()
                begun.release()
                journal.close()
                return state

    return asyncio.run(play())


def detail(state: RunState) -> str:
    assert state.escalation is not None
    assert state.escalation.reason is Reason.ACTION_FAILED
    return state.escalation.detail


@pytest.mark.parametrize("program", SHELLS)
def test_output_and_status_come_back(tmp_path: Path, program: str) -> None:
    state = run(
        tmp_path,
        program,
        "echo one; echo two >&2",
        "printf 'no newline'",
        "true",
        "echo 'it''s  \"quoted\" $HOME' \\\\ | cat",
        "seq 1 2000",
        "exit 0",
        "echo still here # and a comment",
    )
    assert state.outcome is Outcome.SUCCEEDED, state.escalation
    got = [state.registered[f"r{i}"] for i in range(7)]
    assert got[0] == {"status": 0, "stdout": "one\ntwo\n"}
    said = [str(one["stdout"]).strip("\n") for one in got if isinstance(one, dict)]
    assert said[1:4] == ["no newline", "", 'its  "quoted" $HOME \\']
    assert said[4].split() == [str(n) for n in range(1, 2001)]
    assert said[5:] == ["", "still here"]


@pytest.mark.parametrize("program", SHELLS)
@pytest.mark.parametrize("length", [900, 1010, 3000, 20_000])
def test_a_command_longer_than_a_line_arrives_whole(tmp_path: Path, program: str, length: int) -> None:
    words = (r"it''s \n \\ %s 5% $HOME !! \"q\" `id` \0101 \u00fc\u4e2d 'a' " * (length // 40))[:length]
    state = run(tmp_path, program, f"printf %s {shlex.quote(words)} | md5sum")
    assert state.registered["r0"] == {"status": 0, "stdout": f"{md5(words.encode()).hexdigest()}  -\n"}


@pytest.mark.parametrize("program", SHELLS[:1])
@pytest.mark.parametrize(
    ("command", "status"), [("exit 7", 7), ("if", 2), ("kill -9 $$", 137), ("nosuchcommand", 127)]
)
def test_a_status_that_is_not_ok_is_told(tmp_path: Path, program: str, command: str, status: int) -> None:
    assert detail(run(tmp_path, program, command)).startswith(f"it ended with status {status}, not 0")
    state = run(tmp_path / "b", program, command, "echo after", ok_codes=[status, 0])
    assert state.outcome is Outcome.SUCCEEDED


def test_the_echo_of_the_command_is_not_taken_for_its_end(tmp_path: Path) -> None:
    state = run(tmp_path, "dash -i", "cat /proc/$PPID/cmdline >/dev/null; sleep 0.2; echo done")
    got = state.registered["r0"]
    assert isinstance(got, dict)
    assert str(got["stdout"]).strip() == "done"
    traced = run(tmp_path / "b", "dash -ix", "echo traced")
    assert "traced" in str(traced.registered["r0"])


def test_without_a_shell_it_ends_with_a_question(tmp_path: Path) -> None:
    assert "is a shell there" in detail(run(tmp_path, "cat", "echo one", timeout=1))


@pytest.mark.parametrize("command", ["echo a\nreboot", "echo \x03", "echo \x1b[A", "x" * 70_000])
def test_what_a_console_would_take_for_keys_is_not_sent(tmp_path: Path, command: str) -> None:
    state = run(tmp_path, "dash -i", command)
    assert "nothing was sent" in detail(state)
    assert state.input_sent is False
