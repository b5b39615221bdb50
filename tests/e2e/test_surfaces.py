"""The smaller surfaces: init, watch, completions, the synchronous twin, the pytest plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Command, environment, start
from tests.played import PASSWORD, PLAYBOOK

from reflexarc import Reply, sync
from reflexarc.errors import SafetyError
from reflexarc.playbook.state import Escalation, Outcome


def test_init_writes_an_inventory_that_loads(command: Command, lab: Path) -> None:
    (lab / "my.qcow2").write_bytes(b"")
    done = command("init", "box", "--disk", "my.qcow2", "--file", "new.toml")
    assert (done.returncode, "a machine 'box'" in done.stdout) == (0, True)
    listed = json.loads(command("machines", "list", "--inventory", "new.toml", "--json").stdout)
    assert [(row["name"], row["drivers"], row["pid"]) for row in listed] == [("box", ["qemu"], None)]
    again = command("init", "box", "--file", "new.toml")
    assert (again.returncode, "there is an inventory already" in again.stderr) == (2, True)
    bad = command("init", "no such name", "--file", "other.toml")
    assert (bad.returncode, (lab / "other.toml").exists()) == (2, False)


def test_watch_says_each_phase_once(lab: Path, command: Command) -> None:
    watching = subprocess.Popen(
        start(["watch", "lab", "--json", "--until", "power_off"]),
        cwd=lab, env=environment(lab, {}), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (0, "")
    assert [json.loads(line)["phase"] for line in out.splitlines()] == ["power_off"]
    assert command("watch", "lab", "--until", "grub_menu", "--timeout", "0.3").returncode == 1
    assert "no phase 'grub_meun'" in command("watch", "lab", "--until", "grub_meun").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_name_the_command(command: Command, shell: str) -> None:
    assert "_REFLEXARC_COMPLETE" in command("completions", shell).stdout


def test_completion_knows_commands_and_machines(command: Command) -> None:
    def completed(words: str, index: int) -> str:
        more = {"_REFLEXARC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
        return command(**more).stdout

    assert "plain,runs" in completed("reflexarc ru", 1)
    assert "plain,lab" in completed("reflexarc observe l", 2)


def test_the_synchronous_twin(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(lab / "state"))
    asked: list[str] = []

    def answer(held: Escalation) -> Reply:
        asked.append(held.reason)
        return Reply("resume", grant=["power.shutdown"])

    with sync.open("lab", inventory=lab / "reflexarc.toml") as m:
        assert m.observe().phase == "power_off"
        state = m.run(PLAYBOOK, secret_references={"password": f"file:{lab / 'secret'}"}, answer=answer)
        assert (state.outcome, asked) == (Outcome.SUCCEEDED, ["needs_authorization"])
        assert m.wait_for("power_off", timeout=5).phase == "power_off"
        assert m.power.state() == "off"
        with pytest.raises(SafetyError):
            m.keyboard.press("ctrl+alt+delete")
        assert m.screenshot().width == 720


def test_the_pytest_plugin_reports_what_the_machine_shows(lab: Path) -> None:
    (lab / "test_lab.py").write_text(
        "def test_boots(reflexarc):\n"
        "    m = reflexarc.open('lab')\n"
        "    m.power.on()\n"
        "    m.wait_for('grub_menu', timeout=20)\n"
        "    m.keyboard.press('enter')\n"
        "    assert m.wait_for('login_prompt', timeout=20).phase == 'shell_prompt'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lab.py"],
        cwd=lab, env={**environment(lab, {}), "PYTHONPATH": os.pathsep.join(sys.path)}, text=True,
        capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "machine lab" in done.stdout
    assert "login_prompt (confidence" in done.stdout
    assert "lab login:" in done.stdout
    assert PASSWORD not in done.stdout
