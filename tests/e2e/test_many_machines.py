"""One command over several machines: one run each, a summary, the worst code; Ctrl-C leaves all of them resumable."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command, environment, start
from tests.played import write_recording

MACHINES = ("lab1", "lab2", "lab3")
ON = {"name": "on", "wait_for": "power_off", "action": "power_on"}
MENU = {"name": "menu", "wait_for": "grub_menu"}


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Three played machines that start, and one that stays dark."""
    machine = write_recording(tmp_path).read_text()
    dark = tmp_path / "dark"
    dark.mkdir()
    (dark / "recording.jsonl").write_text('{"at": 0, "power": "off"}\n')
    tables = [machine.replace("machines.lab", f"machines.{name}") for name in MACHINES]
    tables.append('[machines.bad]\ndrivers = ["replay"]\nreplay = {recording = "dark", speed = 1.0}\n')
    (tmp_path / "reflexarc.toml").write_text("".join(tables))
    return tmp_path


def playbook(lab: Path, *steps: Mapping[str, object]) -> str:
    (lab / "many.yaml").write_text(
        yaml.safe_dump({"name": "many", "on_unknown": "wait", "steps": list(steps)})
    )
    return "many.yaml"


def heeds_ctrl_c() -> None:
    """Undo what a shell does to the programs that it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def outcomes(command: Command) -> dict[str, str]:
    return {row["machine"]: row["outcome"] for row in json.loads(command("runs", "list", "--json").stdout)}


def test_the_worst_code_counts(command: Command, lab: Path) -> None:
    many = playbook(lab, ON, {**MENU, "timeout": 3})
    done = command("run", many, "-m", "lab*", "-m", "bad", "--junit", "many.xml")
    assert done.returncode == 3
    assert [line for line in done.stderr.splitlines() if "exit code" in line] == [
        "lab1: exit code 0", "lab2: exit code 0", "lab3: exit code 0", "bad: exit code 3",
    ]  # fmt: skip
    assert outcomes(command) == {**dict.fromkeys(MACHINES, "succeeded"), "bad": "held"}
    assert (lab / "many.xml").read_text().count("<testsuite ") == 4


def test_one_that_fails_and_one_that_cannot_begin(command: Command, lab: Path) -> None:
    stays = {
        "name": "lights",
        "when": {"value": "{{ bad }}", "equals": "yes"},
        "action": "fail",
        "args": {"message": "x"},
    }
    (lab / "fails.yaml").write_text(
        yaml.safe_dump({"name": "fails", "vars": {"bad": "yes"}, "steps": [ON, stays]})
    )
    assert command("run", "fails.yaml", "-m", "lab1", "-m", "lab2").returncode == 1
    inventory = (lab / "reflexarc.toml").read_text()
    (lab / "reflexarc.toml").write_text(
        inventory + '[machines.gone]\ndrivers = ["replay"]\nreplay = {recording = "gone"}\n'
    )
    done = command("run", playbook(lab, ON, MENU), "-m", "lab3", "-m", "gone")
    assert done.returncode == 2
    assert "gone: " in done.stderr
    assert "there is no recording.jsonl" in done.stderr
    assert outcomes(command)["lab3"] == "succeeded"


def test_ctrl_c_leaves_every_run_resumable(command: Command, lab: Path) -> None:
    never = {"name": "never", "wait_for": "memtest", "timeout": 600}
    many = playbook(lab, ON, MENU, never)
    with subprocess.Popen(
        start(["run", many, "-m", "lab*"]), cwd=lab, env=environment(lab, {}), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeds_ctrl_c,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        menus = 0
        while menus < len(MACHINES):
            line = running.stderr.readline()
            assert line
            menus += " menu " in line
        assert outcomes(command) == dict.fromkeys(MACHINES, "running")
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in said
    assert outcomes(command) == dict.fromkeys(MACHINES, "interrupted")
    row = json.loads(command("runs", "list", "--json").stdout)[0]
    with subprocess.Popen(
        start(["runs", "resume", row["run_id"]]), cwd=lab, env=environment(lab, {}), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeds_ctrl_c,
    ) as resumed:  # fmt: skip
        while outcomes(command)[row["machine"]] != "running":
            assert resumed.poll() is None
        resumed.send_signal(signal.SIGINT)
        resumed.communicate(timeout=30)
    assert resumed.returncode == 130
    assert command("runs", "abort", row["run_id"]).returncode == 0
    assert sorted(outcomes(command).values()) == ["aborted", "interrupted", "interrupted"]
