"""Grants, the host's policy and the audit log at the command line, with a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command, environment, start

OFF = [{"name": "off", "wait_for": "power_off", "action": "hard_off", "destructive": True}]
PLAYBOOK = {"name": "off", "authorize": {"destructive": True, "ops": ["power.off"]}, "steps": OFF}


def at_terminal(lab: Path, *arguments: str, code: str | None = None, says: str = "") -> tuple[int, str]:
    """Run a command on a terminal of its own, type the code that it shows or the text; its exit code and output."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        start(arguments), cwd=lab, env=environment(lab, {}), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown, answered = "", False
        while True:
            try:
                piece = os.read(ours, 4096).decode(errors="replace")
            except OSError:
                break
            if not piece:
                break
            shown += piece
            asked = re.search(r"Type (\w+) to grant this: ?$", shown) or re.search(r"\[y/N\]: ?$", shown)
            if asked and not answered:
                answered = True
                typed = says or code or asked[1]
                os.write(ours, f"{typed}\n".encode())
            elif "Ctrl-C leaves it held" in shown[-400:]:
                os.write(ours, b"x\n")  # the run is held, and this ends it
        os.close(ours)
        return process.wait(60), shown.replace("\r\n", "\n")


def audit(command: Command) -> list[dict[str, object]]:
    return [json.loads(line) for line in command("audit", "--json").stdout.splitlines()]


def test_a_held_run_is_granted_and_resumed(command: Command, lab: Path) -> None:
    (lab / "off.yaml").write_text(yaml.safe_dump(PLAYBOOK))
    held = json.loads(command("run", "off.yaml", "-m", "lab").stdout)
    run = held["run_id"]
    assert held["reason"] == "needs_authorization"
    assert "reflexarc grant" in held["detail"]
    code, shown = at_terminal(lab, "grant", run, "power.off", "--expires", "90s")
    assert code == 0, shown
    assert "'off', if power_off" in shown
    (listed,) = json.loads(command("grant", "list", "--json").stdout)
    assert (listed["run"], listed["operations"]) == (run, ["power.off"])
    assert 80 < listed["expires"] - listed["created"] <= 90
    done = command("runs", "reply", run, "resume", "--json")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "succeeded")
    assert command("grant", "list").stdout == ""
    (fired,) = [line for line in audit(command) if line["operation"] == "power.off"]
    assert (fired["run"], fired["step"], fired["allowed"], fired["who"]) == (run, "off", True, "person")
    assert fired["evidence"] == "power_off (power 1.00)"


def test_one_call_to_a_machine(command: Command, lab: Path) -> None:
    assert command("power", "lab", "off").returncode == 1
    code, shown = at_terminal(lab, "grant", "lab", "power.off,power.cycle")
    assert code == 0, shown
    (listed,) = json.loads(command("grant", "list", "--json").stdout)
    assert command("power", "lab", "cycle").returncode == 0
    again = command("power", "lab", "off")
    assert (again.returncode, "nobody granted it" in again.stderr) == (1, True)
    calls = [line for line in audit(command) if str(line["operation"]).startswith("power.")]
    assert [(line["operation"], line["allowed"]) for line in calls] == [
        ("power.off", False), ("power.cycle", True), ("power.off", False),
    ]  # fmt: skip
    assert str(calls[1]["why"]).startswith(f"grant {listed['id']} by ")
    assert "REFUSED power.off" in command("audit", "--machine", "lab").stdout
    assert command("audit", "--machine", "lab2").stdout == ""


def test_a_revoked_grant_serves_nobody(command: Command, lab: Path) -> None:
    assert at_terminal(lab, "grant", "lab", "power.off")[0] == 0
    number = json.loads(command("grant", "list", "--json").stdout)[0]["id"]
    assert command("grant", "revoke", number[:5]).stdout == f"grant {number}: revoked\n"
    assert command("grant", "revoke", number).returncode == 1
    assert command("power", "lab", "off").returncode == 1


def test_a_grant_takes_a_terminal_and_the_code(command: Command, lab: Path) -> None:
    refused = command("grant", "lab", "power.off", stdin="y\n")
    assert (refused.returncode, "needs a person at a terminal" in refused.stderr) == (1, True)
    code, shown = at_terminal(lab, "grant", "lab", "power.off", code="wrong")
    assert (code, "not the code" in shown) == (1, True)
    assert command("grant", "list").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("lab", "power.rest"), 2, "did you mean 'power.reset'?"),
        (("lab", "keyboard.press"), 2, "there is nothing to grant"),
        (("lab", "media.mount"), 2, "write media.mount=IMAGE"),
        (("lab", "power.off=x"), 2, "write power.off"),
        (("lba", "power.off"), 2, "did you mean 'lab'?"),
        (("lab", "power.off", "--expires", "2d"), 2, "no time up to 24h"),
        (("lab", "power.off", "--count", "0"), 2, "0 is not in the range"),
        (("lab",), 2, "Missing argument"),
    ],
)
def test_mistakes_are_told_before_a_code_is_asked_for(
    lab: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    found, shown = at_terminal(lab, "grant", *arguments)
    assert (found, says in " ".join(shown.split()), "Type " in shown) == (code, True, False), shown


def test_the_prompt_shows_every_destructive_step_and_asks_once(command: Command, lab: Path) -> None:
    steps = [
        *OFF,
        {"name": "blind", "action": "hard_off", "destructive": True},
        {"name": "cut", "action": "hard_cycle", "destructive": True, "precondition": "power_off"},
    ]
    (lab / "off.yaml").write_text(yaml.safe_dump({**PLAYBOOK, "steps": steps}))
    code, shown = at_terminal(lab, "run", "off.yaml", "-m", "lab", says="n")
    assert "power.off        'off', if power_off" in shown
    assert "power.off        'blind', UNVERIFIED" in shown
    assert (
        "power.cycle      'cut', if power_off; it will be asked about: the playbook's authorize.ops" in shown
    )
    assert shown.count("[y/N]") == 1
    assert code != 0


def test_the_host_s_policy_stands_over_grants(command: Command, lab: Path) -> None:
    policy = lab / "policy.toml"
    policy.write_text('[machines."*"]\nallow = {people = ["observe", "input", "power.on"]}\n')
    lab.chmod(0o755)
    policy.chmod(0o644)
    (lab / "off.yaml").write_text(yaml.safe_dump(PLAYBOOK))
    done = command("run", "off.yaml", "-m", "lab", "--grant", "power.off", REFLEXARC_POLICY=str(policy))
    assert (done.returncode, json.loads(done.stdout)["reason"]) == (3, "needs_authorization")
    assert "policy" in json.loads(done.stdout)["detail"]
    policy.chmod(0o666)
    refused = command("power", "lab", "status", REFLEXARC_POLICY=str(policy))
    assert (refused.returncode, "can't be trusted" in refused.stderr) == (2, True)


def test_a_full_disk_lets_nothing_destructive_through(command: Command, lab: Path) -> None:
    (lab / "state").mkdir(mode=0o700)
    (lab / "state" / "audit.jsonl").symlink_to("/dev/full")
    done = command("power", "lab", "on")
    assert done.returncode == 2
    assert "nothing was sent" in done.stderr
