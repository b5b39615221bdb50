"""`reflexarc playbook`: what each command prints and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.e2e.conftest import Command
from tests.played import PLAYBOOK, STEPS

DOUBTFUL = "name: doubtful\nvars:\n  disk: vda\nsteps:\n- {name: a, wait_for: grub_menu}\n"
WRONG = "name: wrong\nsteps:\n- {name: a, wait_for: grub_meun}\n- {name: b, action: pres_key}\n"


@pytest.fixture
def files(lab: Path) -> Path:
    (lab / "doubtful.yaml").write_text(DOUBTFUL)
    (lab / "wrong.yaml").write_text(WRONG)
    (lab / "other.json").write_text('{"no": "playbook"}')
    return lab


@pytest.mark.usefixtures("files")
def test_validate(command: Command) -> None:
    done = command("playbook", "validate", "doubtful.yaml", "wrong.yaml", "none.yaml")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "wrong.yaml:3:13: error: there is no phase 'grub_meun'; did you mean 'grub_menu'?",
        "wrong.yaml:4:13: error: there is no action 'pres_key'; did you mean 'press_key'?",
        "none.yaml: error: can't read the playbook: No such file or directory",
    ]
    assert done.stdout == (
        "doubtful.yaml:3:3: warning: the variable 'disk' is never used [unused-variable]; "
        "take it out, or look it up with {{ disk }}\n"
    )
    assert command("playbook", "validate", "doubtful.yaml").returncode == 0
    assert command("playbook", "validate", "--strict", "doubtful.yaml").returncode == 1
    fine = command("playbook", "validate", "--strict", "--json", "played.yaml", "doubtful.yaml")
    assert fine.returncode == 1
    played, doubtful = json.loads(fine.stdout)
    assert (played["valid"], played["errors"]) == (True, [])
    assert [warning["code"] for warning in played["warnings"]] == ["needless-op"]
    assert (doubtful["warnings"][0]["line"], doubtful["warnings"][0]["column"]) == (3, 3)


def test_the_schema_is_one_and_fits(command: Command) -> None:
    printed = json.loads(command("playbook", "schema").stdout)
    Draft202012Validator.check_schema(printed)
    Draft202012Validator(printed).validate(PLAYBOOK)
    assert not Draft202012Validator(printed).is_valid({"name": "x", "steps": [{"name": "a"}]})


@pytest.mark.usefixtures("files")
def test_list_passes_other_files_over(command: Command) -> None:
    rows = json.loads(command("playbook", "list", "--json").stdout)
    assert [(row["file"], row["name"], row["steps"]) for row in rows] == [
        ("doubtful.yaml", "doubtful", 1),
        ("played.yaml", "played", len(STEPS)),
        ("wrong.yaml", None, 0),
    ]
    assert "did you mean 'grub_menu'?" in rows[2]["error"]
    assert "played: 9 steps." in command("playbook", "list").stdout
    assert command("playbook", "list", "nowhere").returncode == 2


def test_show(command: Command) -> None:
    shown = json.loads(command("playbook", "show", "played.yaml", "--json").stdout)
    assert (shown["needs"], shown["authorize"]) == (
        ["keyboard", "power", "screen"],
        ["power.shutdown", "power.reset"],
    )
    assert [(v["name"], v["secret"], v["required"]) for v in shown["variables"]] == [("password", True, True)]
    down = next(step for step in shown["steps"] if step["name"] == "down")
    assert (down["action"], down["operation"], down["must_be_authorised"]) == (
        "shutdown",
        *["power.shutdown"] * 2,
    )
    assert (down["waits_for"], down["verified_before"], down["timeout"]) == (
        "shell_prompt",
        "shell_prompt",
        300.0,
    )
    text = command("playbook", "show", "played.yaml").stdout
    assert "variable password: a secret." in text
    assert "  to be authorised  power.shutdown" in text
    assert command("playbook", "show", "none.yaml").returncode == 2
