"""Going on from where a run stands: printed commands that work, other steps, exit codes, completions, stale reports."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command, environment, start

# A played machine begins anew with each process: it is off.
ASKS = """
name: asks
authorize: {destructive: true, ops: [power.off]}
steps:
  - {name: begin, action: note, args: {text: begun}}
  - {name: cut, wait_for: power_off, action: hard_off, destructive: true}
  - {name: the end, action: note, args: {text: done}}
"""


@pytest.fixture
def lab(lab: Path) -> Path:
    (lab / "asks.yaml").write_text(ASKS)
    return lab


@pytest.fixture
def held(command: Command) -> str:
    """A run that is held for want of a grant, at the step before its last."""
    return str(json.loads(command("run", "asks.yaml", "-m", "lab").stdout)["run_id"])


def pasted(lab: Path, line: str) -> subprocess.CompletedProcess[str]:
    """What a line that was printed does in a shell, its comment included."""
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=lab, env=environment(lab, {}), text=True, capture_output=True, timeout=60,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_every_printed_answer_works_as_it_is_pasted(command: Command, lab: Path, held: str) -> None:
    (lab / "steps.yaml").write_text("steps:\n- {name: note it, action: note, args: {text: looked}}\n")
    shown = command("runs", "show", held).stdout
    printed = [line.strip() for line in shown.splitlines() if f" runs reply {held} " in line]
    replies = [shlex.split(line, comments=True)[shlex.split(line).index(held) + 1 :] for line in printed]
    assert [" ".join(reply) for reply in replies] == [
        "resume", "resume --grant power.off", "amend --resume-at 2", "amend FILE", "act FILE",
        "teach --phase PHASE --text REGEX", "abort",
    ]  # fmt: skip
    assert "to 'the end'" in printed[2]
    resumed = pasted(lab, printed[0])
    assert (resumed.returncode, json.loads(resumed.stdout)["escalation_id"]) == (3, 2)
    acted = pasted(lab, printed[4].replace("FILE", "steps.yaml"))
    assert (acted.returncode, json.loads(acted.stdout)["escalation_id"]) == (3, 3)
    assert pasted(lab, printed[1]).returncode == 0
    assert json.loads(command("runs", "show", held, "--json").stdout)["outcome"] == "succeeded"


def test_the_held_step_is_passed_over(command: Command, held: str) -> None:
    assert "FILE, or --resume-at" in command("runs", "reply", held, "amend").stderr
    assert command("runs", "reply", held, "resume", "--resume-at", "the end").returncode == 2
    assert command("runs", "reply", held, "resume", "asks.yaml").returncode == 2
    assert "did you mean 'begin'" in command("runs", "reply", held, "amend", "--resume-at", "begni").stderr
    again = command("runs", "reply", held, "amend", "--resume-at", "begin")
    assert (again.returncode, json.loads(again.stdout)["step_name"]) == (3, "cut")
    assert command("runs", "reply", held, "amend", "--resume-at", "the end").returncode == 0
    audit = [json.loads(line)["operation"] for line in command("audit", "--json").stdout.splitlines()]
    assert {name for name in audit if not name.startswith("observe.")} == set()


def test_both_ways_to_abort_exit_alike(command: Command) -> None:
    codes = []
    for words in (("reply", "abort"), ("abort",)):
        run = str(json.loads(command("run", "asks.yaml", "-m", "lab").stdout)["run_id"])
        kind, *more = words
        done = command("runs", kind, run, *more)
        codes.append(done.returncode)
        assert json.loads(command("runs", "show", run, "--json").stdout)["outcome"] == "aborted"
    assert codes == [0, 0]


def test_a_second_run_is_told_the_whole_reply(command: Command, lab: Path, held: str) -> None:
    refused = command("run", "asks.yaml", "-m", "lab")
    (reply,) = re.findall(r"`([^`]+ runs reply [^`]+)`", refused.stderr)
    assert pasted(lab, reply).returncode == 3
    (ended,) = re.findall(r"`([^`]+ runs abort [^`]+)`", refused.stderr)
    assert pasted(lab, ended).returncode == 0


def test_a_report_of_a_held_run_says_how_it_is_written_anew(command: Command, lab: Path) -> None:
    done = command("run", "asks.yaml", "-m", "lab", "--report", "run.html")
    run = json.loads(done.stdout)["run_id"]
    (again,) = re.findall(r"after it: `([^`]+)`", done.stderr)
    before = (lab / "run.html").read_bytes()
    assert command("runs", "reply", run, "resume", "--grant", "power.off").returncode == 0
    assert (lab / "run.html").read_bytes() == before
    assert pasted(lab, again).returncode == 0
    assert b"succeeded" in (lab / "run.html").read_bytes()
    ended = command("run", "asks.yaml", "-m", "lab", "--grant", "power", "--report", "run.html")
    assert (ended.returncode, "has not ended" in ended.stderr) == (0, False)


def test_a_video_of_a_held_run_says_what_goes_on(command: Command, lab: Path) -> None:
    done = command(
        "run", "played.yaml", "-m", "lab", "--secret", "password=file:secret", "--video", "run.webp"
    )
    run = json.loads(done.stdout)["run_id"]
    assert (
        f"run {run} has not ended: {lab / 'state' / 'runs' / run / 'video.webp'} is what goes on"
        in done.stderr
    )
    assert (lab / "run.webp").read_bytes()[:4] == b"RIFF"


def test_an_amended_run_counts_under_the_name_it_began_with(command: Command, lab: Path, held: str) -> None:
    (lab / "other.yaml").write_text(ASKS.replace("name: asks", "name: other"))
    assert command("runs", "reply", held, "amend", "other.yaml").returncode == 3
    assert [row["name"] for row in json.loads(command("runs", "stats", "--json").stdout)] == ["asks"]


def test_ctrl_c_says_how_the_run_goes_on(command: Command, lab: Path) -> None:
    steps = [{"name": "never", "wait_for": "memtest", "timeout": 600}]
    (lab / "waits.yaml").write_text(yaml.safe_dump({"name": "waits", "unknown_after": 3600, "steps": steps}))
    with subprocess.Popen(
        start(["run", "waits.yaml", "-m", "lab"]), cwd=lab, env=environment(lab, {}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    ) as running:  # fmt: skip
        while not (rows := json.loads(command("runs", "list", "--json").stdout)):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    run = rows[0]["run_id"]
    assert (running.returncode, "Traceback" in said) == (130, False)
    goes_on, ends = re.findall(r"`([^`]+)`", said)
    assert f"run {run}: interrupted; " in said
    assert goes_on.endswith(f" runs resume {run}")
    assert pasted(lab, ends).returncode == 0
    assert json.loads(command("runs", "show", run, "--json").stdout)["outcome"] == "aborted"


MACHINE, RUN = "lab", "the run"
OFFERED = {
    "run asks.yaml -m la": MACHINE, "playbook validate asks.yaml -m la": MACHINE, "doctor la": MACHINE,
    "grant la": MACHINE, "runs show 2": RUN, "runs reply 2": RUN, "grant 2": RUN,
}  # fmt: skip


def completed(command: Command, words: str) -> subprocess.CompletedProcess[str]:
    more = {"_REFLEXARC_COMPLETE": "bash_complete", "COMP_WORDS": f"reflexarc {words}"}
    return command(**more, COMP_CWORD=str(len(words.split())))


def test_machines_and_runs_are_completed(command: Command, held: str) -> None:
    for words, offers in OFFERED.items():
        wanted = held if offers == RUN else offers
        assert f"plain,{wanted}" in completed(command, words).stdout.splitlines(), words


def test_nothing_is_completed_where_nothing_can_be_read(command: Command, lab: Path) -> None:
    (lab / "reflexarc.toml").write_text("[machines\n")
    (lab / "state").mkdir()
    (lab / "state" / "runs.sqlite").write_bytes(os.urandom(5000))
    for words in ("run x.yaml -m l", "runs show 2", "grant la"):
        done = completed(command, words)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
