"""Teaching from the command line and from a program: the run goes on, and later runs know the screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.played import text

import reflexarc.sync
from reflexarc.machine.frame import Frame
from reflexarc.playbook.state import Outcome
from reflexarc.runs.replies import Reply

PLAYBOOK = """
name: appliance
unknown_after: 0.3
steps:
  - {name: up, wait_for: os_running, action: press_key, args: {key: enter}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recorded appliance that nothing recognises, in an inventory, and a playbook for it."""
    (tmp_path / "recording").mkdir()
    picture = text(["ACME appliance 4.2", "", "  1) Network", "Choose:"])
    (tmp_path / "recording/1.png").write_bytes(Frame(picture, 0.0, 1).png())
    (tmp_path / "recording/recording.jsonl").write_text(
        json.dumps({"at": 0, "power": "on", "frame": "1.png"}) + "\n"
    )
    (tmp_path / "reflexarc.toml").write_text(
        '[machines.lab]\ndrivers = ["replay"]\nreplay = {recording = "recording", speed = 1.0}\n'
    )
    (tmp_path / "appliance.yaml").write_text(PLAYBOOK)
    return tmp_path


def reflexarc_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = {"REFLEXARC_STATE": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    environment = {**os.environ, **places, "PYTHONPATH": ":".join(sys.path)}
    argv = [sys.executable, "-m", "reflexarc", *arguments]
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_a_held_run_is_taught_from_the_command_line(folder: Path) -> None:
    run = ("run", "appliance.yaml", "--machine", "lab")
    held = reflexarc_command(folder, *run)
    assert held.returncode == 3
    asked = json.loads(held.stdout)
    assert "teach" in asked["replies"]
    reply = ("runs", "reply", asked["run_id"], "teach", "--phase", "os_running")
    refused = reflexarc_command(folder, *reply, "--text", "login:")
    assert (refused.returncode, "not on the screen" in refused.stderr) == (2, True)
    assert reflexarc_command(folder, *reply, "--text", "^ACME appliance").returncode == 0
    assert reflexarc_command(folder, *run).returncode == 0
    (taught,) = json.loads(reflexarc_command(folder, "phases", "list", "--taught", "--json").stdout)
    assert (taught["phase"], taught["accepted"], taught["run"]) == ("os_running", True, asked["run_id"])
    assert reflexarc_command(folder, "phases", "forget", taught["name"]).returncode == 0
    assert reflexarc_command(folder, *run).returncode == 3


def test_a_program_teaches_without_asyncio(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(folder / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    with reflexarc.sync.open("lab", inventory=folder / "reflexarc.toml") as machine:
        state = machine.run(
            folder / "appliance.yaml",
            answer=lambda held: Reply("teach", phase="os_running", text=held.text.splitlines()[0]),
        )
    assert state.outcome is Outcome.SUCCEEDED
    assert [path.suffix for path in (folder / "config/reflexarc/phases").iterdir()] == [".yaml"]
