"""The command line on a played machine: exit codes, JSON, one clear error for every mistake."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command, environment, start
from tests.played import PASSWORD, STEPS

WITH_SECRET = ("--secret", "password=file:secret")


def test_a_run_that_succeeds(command: Command, lab: Path) -> None:
    done = command("run", "played.yaml", "-m", "lab", *WITH_SECRET, "--grant", "power.shutdown", "--json")
    assert (done.returncode, done.stderr.count("\n")) == (0, 9)
    outcome = json.loads(done.stdout)
    assert (outcome["outcome"], outcome["machine"]) == ("succeeded", "lab")
    assert outcome["registered"]["kernel"]["match"] == "6.1.0-57-cloud-amd64"
    assert outcome["telemetry"]["vision_calls"] == 0
    assert [step["name"] for step in outcome["telemetry"]["steps"]] == [step["name"] for step in STEPS]
    listed = json.loads(command("runs", "list", "--json").stdout)
    assert [(row["run_id"], row["outcome"]) for row in listed] == [(outcome["run_id"], "succeeded")]
    shown = json.loads(command("runs", "show", outcome["run_id"][:12], "--json").stdout)
    assert shown["outcome"] == "succeeded"
    for path in (lab / "state").rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()


def test_a_run_that_is_held_and_answered(command: Command) -> None:
    done = command("run", "played.yaml", "-m", "lab", *WITH_SECRET)
    assert done.returncode == 3
    held = json.loads(done.stdout)
    assert (held["reason"], held["step_name"], held["escalation_id"]) == ("needs_authorization", "down", 1)
    assert set(held) == {
        "run_id", "escalation_id", "playbook", "machine", "step_index", "step_name", "reason", "detail", "expected",
        "observed_phase", "confidence", "rung", "text", "outline", "frame", "history", "registered", "hold", "replies",
    }  # fmt: skip
    run = held["run_id"]
    assert command("runs", "reply", run, "resume", "--escalation", "9").returncode == 1
    assert command("runs", "reply", run, "explode").returncode == 2
    assert command("runs", "reply", run, "act", "-", stdin="steps: [{name: x}]").returncode == 2
    assert (
        json.loads(command("runs", "list", "--held", "--json").stdout)[0]["reason"] == "needs_authorization"
    )
    aborted = command("runs", "abort", run)
    assert (aborted.returncode, aborted.stdout) == (0, f"run {run}: aborted\n")
    assert command("runs", "reply", run, "resume").returncode == 1
    assert json.loads(command("runs", "show", run, "--json").stdout)["outcome"] == "aborted"


def test_a_run_that_fails(command: Command, lab: Path) -> None:
    steps = [{"name": "stop", "action": "fail", "args": {"message": "not today"}}]
    (lab / "fails.yaml").write_text(yaml.safe_dump({"name": "fails", "steps": steps}))
    done = command("run", "fails.yaml", "-m", "lab", "--json")
    assert (done.returncode, json.loads(done.stdout)["reason"]) == (1, "not today")


def test_a_dry_run_sends_nothing(command: Command, lab: Path) -> None:
    done = command("run", "played.yaml", "-m", "lab", *WITH_SECRET, "--dry-run", "--json")
    assert done.returncode == 0
    plan = json.loads(done.stdout)
    assert [step["needs_grant"] for step in plan["steps"] if step["needs_grant"]] == ["power.shutdown"]
    assert command("runs", "list").stdout == ""
    log = lab / "state" / "audit.jsonl"
    audit = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    assert {line["operation"].split(".")[0] for line in audit} <= {"observe"}


def test_several_machines(command: Command, lab: Path) -> None:
    inventory = (lab / "reflexarc.toml").read_text()
    (lab / "reflexarc.toml").write_text(inventory + inventory.replace("machines.lab", "machines.lab2"))
    steps = [{"name": "off", "wait_for": "power_off"}]
    (lab / "looks.yaml").write_text(yaml.safe_dump({"name": "looks", "steps": steps}))
    done = command("run", "looks.yaml", "-m", "lab*")
    assert done.returncode == 0
    assert "lab: exit code 0" in done.stderr
    assert "lab2: exit code 0" in done.stderr


def test_an_interrupted_run_is_resumed(command: Command, lab: Path) -> None:
    steps = [{"name": "never", "wait_for": "memtest", "timeout": 600}]
    (lab / "waits.yaml").write_text(yaml.safe_dump({"name": "waits", "unknown_after": 3600, "steps": steps}))
    running = subprocess.Popen(
        start(["run", "waits.yaml", "-m", "lab"]), cwd=lab, env=environment(lab, {}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    while not (rows := json.loads(command("runs", "list", "--json").stdout)):
        assert running.poll() is None
    run = rows[0]["run_id"]
    assert rows[0]["outcome"] == "running"
    second = command("run", "played.yaml", "-m", "lab", *WITH_SECRET)
    assert (second.returncode, "in use by a run of waits.yaml" in second.stderr) == (1, True)
    assert command("runs", "resume", run).returncode == 1
    assert "advances in another process" in command("runs", "abort", run).stderr
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    running.communicate()
    assert json.loads(command("runs", "list", "--json").stdout)[0]["outcome"] == "interrupted"
    third = command("run", "played.yaml", "-m", "lab", *WITH_SECRET)
    assert (third.returncode, f"runs resume {run}" in third.stderr) == (1, True)
    resumed = subprocess.Popen(
        start(["runs", "resume", run]), cwd=lab, env=environment(lab, {}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    while json.loads(command("runs", "list", "--json").stdout)[0]["outcome"] != "running":
        assert resumed.poll() is None
    resumed.kill()
    resumed.communicate()
    assert command("runs", "abort", run).returncode == 0


def test_observe_and_screenshot(command: Command, lab: Path) -> None:
    seen = json.loads(command("observe", "lab", "--json").stdout)
    assert (seen["phase"], seen["rung"], seen["confidence"]) == ("power_off", "power", 1.0)
    assert command("screenshot", "lab", "shot.png").returncode == 0
    assert (lab / "shot.png").read_bytes().startswith(b"\x89PNG")
    assert command("power", "lab", "status").stdout == "lab: off\n"
    assert command("power", "lab", "on").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("rnu",), 2, "did you mean 'run'?"),
        (("run", "none.yaml", "-m", "lab"), 2, "none.yaml: can't read the playbook: No such file"),
        (("run", "played.yaml", "-m", "lba"), 2, "did you mean 'lab'?"),
        (("run", "played.yaml", "-m", "lab"), 2, "needs the variable password"),
        (("run", "played.yaml", "-m", "lab", "--var", "password=x"), 2, "never with --var"),
        (("run", "played.yaml", "-m", "lab", "--var", "password"), 2, "NAME=VALUE"),
        (("run", "played.yaml", "-m", "lab", *WITH_SECRET, "--grant", "power.rest"), 2, "power.reset"),
        (("run", "played.yaml", "-m", "lab", "--secret", "password=env:NOT_SET"), 2, "NOT_SET is not set"),
        (("run", "broken.yaml", "-m", "lab"), 2, "broken.yaml:4:3: there is no phase 'grub_meun'"),
        (("key", "lab", "entre"), 2, "did you mean enter"),
        (("key", "lab", "ctrl+alt+delete"), 1, "power.reset is destructive and nobody granted it"),
        (("key", "lab", "ctrl+alt+delete", "--yes"), 1, "power.reset is destructive and nobody granted it"),
        (("type", "lab", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"), 2, "can't type"),
        (("power", "lab", "reset"), 1, "nobody granted it"),
        (("machines", "start", "lab"), 2, "no virtual machine"),
        (("runs", "show", "nothing"), 1, "there is no run 'nothing'"),
        (("runs", "reply", "nothing", "resume"), 1, "there is no run 'nothing'"),
        (("observe", "lab", "--inventory", "none.toml"), 2, "can't read the inventory"),
        (("observe", "lab", "--inventory", "broken.toml"), 2, "broken.toml:1"),
        (
            ("observe", "lab", "--inventory", "typo.toml"),
            2,
            "typo.toml:2: machines.lab: there is no key 'dirvers'",
        ),
    ],
)
def test_every_mistake_is_one_clear_error(
    command: Command, lab: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    (lab / "broken.yaml").write_text("name: x\nsteps:\n- name: a\n  wait_for: grub_meun\n")
    (lab / "broken.toml").write_text("[machines\n")
    (lab / "typo.toml").write_text('[machines.lab]\ndirvers = ["qemu"]\n')
    done = command(*arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_state_folder_that_cannot_be_written(command: Command, lab: Path) -> None:
    (lab / "file").write_text("")
    done = command("observe", "lab", REFLEXARC_STATE=str(lab / "file" / "state"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "rights" in done.stderr


def test_no_inventory(command: Command, lab: Path) -> None:
    (lab / "reflexarc.toml").unlink()
    done = command("observe", "lab")
    assert (done.returncode, "there is no inventory" in done.stderr) == (2, True)


def test_help_names_every_command(command: Command) -> None:
    shown = command("--help").stdout
    for name in ("run", "runs", "machines", "observe", "screenshot", "key", "type", "power", "demo"):
        assert f"\n  {name} " in shown


def test_importing_costs_nothing_foreign() -> None:
    code = (
        "import sys; before = set(sys.modules); import reflexarc; "
        "new = [m for n, m in sys.modules.items() if n not in before]; "
        "print('\\n'.join(getattr(m, '__file__', None) or '' for m in new))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reflexarc" in done.stdout
    assert "site-packages" not in done.stdout
