"""A state folder that is read-only, full or damaged: what can be read is read, and the doctor says what is wrong."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Command, environment, start

WITH_SECRET = ("--secret", "password=file:secret")
# To root nothing is read-only, but for these two abilities.
PLAIN_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.fixture
def humble(lab: Path) -> Command:
    """The command, run by somebody for whom a folder's rights count."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PLAIN_USER, *start(arguments)], cwd=lab, env=environment(lab, {}), text=True, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def read_only(lab: Path, command: Command) -> Iterator[str]:
    """A state folder with a held run in it, that can't be written any more; the run's id."""
    held = json.loads(command("run", "played.yaml", "-m", "lab", *WITH_SECRET).stdout)
    state = lab / "state"
    for path in (*state.rglob("*"), state):
        path.chmod(0o500 if path.is_dir() else 0o400)
    yield held["run_id"]
    for path in (state, *state.rglob("*")):
        path.chmod(0o700)


def found(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    """Severity and fix of each finding about the host."""
    return {one["check"]: (one["severity"], one["fix"]) for one in json.loads(done.stdout)["host"]}


def test_a_journal_that_cannot_be_written_is_read(humble: Command, read_only: str, lab: Path) -> None:
    listed = json.loads(humble("runs", "list", "--json").stdout)
    assert [(row["run_id"], row["outcome"]) for row in listed] == [(read_only, "held")]
    assert json.loads(humble("runs", "show", read_only, "--json").stdout)["outcome"] == "held"
    assert humble("runs", "report", read_only, "--html", "run.html").returncode == 0
    assert (lab / "run.html").read_bytes().startswith(b"<!doctype html>")
    assert [group["runs"] for group in json.loads(humble("runs", "stats", "--json").stdout)] == [1]
    refused = humble("runs", "reply", read_only, "resume")
    assert (refused.returncode, "writable" in refused.stderr or "rights" in refused.stderr) == (2, True)


def test_nothing_is_made_to_look_at_no_runs(command: Command, lab: Path) -> None:
    assert (command("runs", "list").stdout, (lab / "state").exists()) == ("", False)
    assert "there is no run 'x'" in command("runs", "show", "x").stderr
    assert command("doctor", "lab").returncode == 0


def test_the_doctor_on_a_read_only_folder(humble: Command, read_only: str, lab: Path) -> None:
    done = humble("doctor", "lab", "--json")
    assert done.returncode == 1, done.stderr
    told = found(done)
    assert {check: severity for check, (severity, _) in told.items()} == {
        "state": "critical", "space": told["space"][0], "journal": "critical", "audit": "critical",
    }  # fmt: skip
    assert all(told[check][1] for check in ("state", "journal", "audit"))
    machine = {one["check"]: one for one in json.loads(done.stdout)["machines"]["lab"]}
    assert (machine["reachable"]["severity"], machine["power"]["detail"]) == ("ok", "off")


def damaged(state: Path) -> None:
    (state / "runs.sqlite").write_bytes(random.Random(1).randbytes(20_000))


def half_damaged(state: Path) -> None:
    raw = bytearray((state / "runs.sqlite").read_bytes())
    raw[4096 : len(raw) - 4096] = bytes(len(raw) - 8192)
    (state / "runs.sqlite").write_bytes(raw)


def a_folder(state: Path) -> None:
    (state / "runs.sqlite").unlink()
    (state / "runs.sqlite").mkdir()


@pytest.mark.parametrize("damage", [damaged, half_damaged, a_folder])
def test_the_doctor_on_a_damaged_journal(command: Command, lab: Path, damage: Callable[[Path], None]) -> None:
    assert command("run", "played.yaml", "-m", "lab", *WITH_SECRET).returncode == 3
    for rest in lab.glob("state/runs.sqlite-*"):
        rest.unlink()
    damage(lab / "state")
    done = command("doctor", "lab", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    severity, fix = found(done)["journal"]
    assert (severity, bool(fix)) == ("critical", True)
    assert command("runs", "list").stderr.count("\n") == 1


@pytest.mark.parametrize("target", ["/dev/full", "/dev/null", "nothing"])
def test_the_doctor_on_an_audit_log_that_is_none(command: Command, lab: Path, target: str) -> None:
    (lab / "state").mkdir(mode=0o700)
    (lab / "state" / "audit.jsonl").symlink_to(target)
    done = command("doctor", "lab", "--json")
    assert (done.returncode, found(done)["audit"][0]) == (1, "critical")
    machine: list[dict[str, Any]] = json.loads(done.stdout)["machines"]["lab"]
    assert {one["check"]: one["detail"] for one in machine}["power"] == "off"


def test_the_doctor_where_the_state_folder_is_a_file(command: Command, lab: Path) -> None:
    (lab / "state").write_text("")
    done = command("doctor", "lab", "--json")
    assert (done.returncode, found(done)["state"][0]) == (1, "critical")


def limited(size: int) -> Callable[[], None]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize(("size", "code"), [(2_000, 2), (140_000, 130)])
def test_interrupted_is_what_began(command: Command, lab: Path, size: int, code: int) -> None:
    """On a disk that is full from the beginning, and on one that fills up in the middle of a run."""
    done = subprocess.run(
        start(["run", "played.yaml", "-m", "lab", *WITH_SECRET]), cwd=lab, env=environment(lab, {}), text=True,
        capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL, preexec_fn=limited(size),
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    runs = json.loads(command("runs", "list", "--json").stdout)
    assert [run["outcome"] for run in runs] == ["interrupted"] * (code == 130)
