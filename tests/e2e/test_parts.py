"""Playbooks in parts: files that are included, and runs that begin further on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command
from tests.played import PLAYBOOK, STEPS

SECRET = ("--secret-file", "password=secret")


@pytest.fixture
def parts(lab: Path) -> Path:
    """The playbook with its middle in a file of its own."""
    (lab / "parts").mkdir()
    (lab / "parts/login.yaml").write_text(yaml.safe_dump({"name": "login", "steps": STEPS[3:5]}))
    steps = [*STEPS[:3], {"include": "parts/login.yaml"}, *STEPS[5:]]
    (lab / "whole.yaml").write_text(yaml.safe_dump({**PLAYBOOK, "steps": steps}))
    return lab


def test_a_run_goes_on_without_the_files_it_was_made_of(command: Command, parts: Path) -> None:
    done = command("run", "whole.yaml", "-m", "lab", *SECRET)
    held = json.loads(done.stdout)
    assert (done.returncode, held["reason"], held["step_index"]) == (3, "needs_authorization", 7)
    (parts / "parts/login.yaml").unlink()
    (parts / "whole.yaml").unlink()
    aborted = command("runs", "abort", held["run_id"])
    shown = json.loads(command("runs", "show", held["run_id"], "--json").stdout)
    assert (aborted.returncode, shown["outcome"]) == (0, "aborted")


def test_a_mistake_in_a_part_is_told_there(command: Command, parts: Path) -> None:
    (parts / "parts/login.yaml").write_text("name: login\nsteps:\n  - {name: x, wait_for: login_promt}\n")
    done = command("run", "whole.yaml", "-m", "lab", *SECRET)
    assert (done.returncode, "parts/login.yaml:3:" in done.stderr) == (2, True)
    assert "did you mean 'login_prompt'" in done.stderr


def test_a_reply_includes_nothing(command: Command, parts: Path) -> None:
    held = json.loads(command("run", "whole.yaml", "-m", "lab", *SECRET).stdout)
    done = command("runs", "reply", held["run_id"], "amend", "whole.yaml")
    assert (done.returncode, "playbooks in files only" in done.stderr) == (2, True)


def test_a_run_begins_where_it_is_told_to(command: Command, lab: Path) -> None:
    steps = [*STEPS[:3], {"name": "here", "wait_for": "power_off"}, {"name": "last", "wait_for": "power_off"}]
    (lab / "late.yaml").write_text(yaml.safe_dump({**PLAYBOOK, "vars": {}, "steps": steps}))
    for at in ("here", "3"):
        done = command("run", "late.yaml", "-m", "lab", "--start-at", at, "--json")
        told = json.loads(done.stdout)
        assert (done.returncode, told["outcome"]) == (0, "succeeded")
        assert [step["name"] for step in told["telemetry"]["steps"]] == ["here", "last"]
    planned = command("run", "late.yaml", "-m", "lab", "--start-at", "last", "--dry-run")
    assert "  5. last: wait" in planned.stdout
    assert "here" not in planned.stdout
    wrong = command("run", "late.yaml", "-m", "lab", "--start-at", "hree")
    assert (wrong.returncode, "did you mean 'here'" in wrong.stderr) == (2, True)
