"""Several processes after one run or one machine: exactly one has it, and whoever lost it sends nothing more."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from tests.outliving import LOST, PROCESSES, Death, Drive, Outliving, run, together
from tests.unit.runs.test_crashes import PLAYBOOK, SCRIPT, SECRET, WHOLE

from reflexarc.errors import RunError
from reflexarc.observation import Phase
from reflexarc.playbook.events import Counted, Lost, Replied, Started
from reflexarc.playbook.state import Outcome, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply, record_reply

PROCESSES_AT_ONCE = 4


@dataclass
class Lab:
    """A machine, and the folder of its runs."""

    machine: Outliving
    drive: Drive

    def ledger(self) -> Ledger:
        journal = Journal(self.drive.state / "runs.sqlite")
        (only,) = journal.runs()
        return Ledger.open(journal, only.run_id)

    def again(self) -> Drive:
        """Taking the run up, without dying this time."""
        return replace(self.drive, playbook=None, run_id=self.ledger().state.run_id, death=None)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Outliving(tmp_path / "socket", SCRIPT).served() as machine:
        yield Lab(machine, Drive(tmp_path, machine.socket, PLAYBOOK, secrets=SECRET, grant=("power",)))


def test_one_of_many_begins(lab: Lab) -> None:
    codes = together([lab.drive] * PROCESSES_AT_ONCE)
    assert sorted(codes) == [0] + [LOST] * (PROCESSES_AT_ONCE - 1)
    assert lab.machine.operations == WHOLE
    assert lab.ledger().state.outcome is Outcome.SUCCEEDED


def test_one_of_many_takes_a_run_up(lab: Lab) -> None:
    assert run(replace(lab.drive, death=Death("sent", 2))) == -signal.SIGKILL
    codes = together([lab.again()] * PROCESSES_AT_ONCE)
    assert sorted(codes) == [0] + [LOST] * (PROCESSES_AT_ONCE - 1)
    assert lab.machine.operations == WHOLE


@pytest.mark.parametrize("sends", [4, 12])
def test_an_owner_that_wakes_up_too_late_sends_nothing(lab: Lab, sends: int) -> None:
    """Its locks are gone, as where something cleans the folder, and another process has taken the run over."""
    first = PROCESSES.Process(target=lab.drive)
    first.start()
    assert first.pid is not None
    while len(lab.machine.sent) < sends:
        assert first.is_alive()
    os.kill(first.pid, signal.SIGSTOP)
    run_id = lab.ledger().state.run_id
    (lab.drive.state / "lab.lock").unlink()
    (lab.drive.state / "runs" / run_id / "lock").unlink()
    assert run(lab.again()) == 0
    ended = lab.ledger().state
    sent = list(lab.machine.sent)
    os.kill(first.pid, signal.SIGCONT)
    first.join()
    assert first.exitcode == LOST
    assert lab.machine.sent == sent
    assert lab.ledger().state == ended


STARTED = Started(
    1.0, "run-1", "lab", {"name": "p", "steps": [{"name": "menu", "wait_for": "grub_menu"}]},
    (Phase("grub_menu"), Phase("unknown")),
)  # fmt: skip
EACH = 100


def _append(path: Path) -> None:
    """Append events until EACH were taken, catching up whenever another process was first."""
    ledger = Ledger.open(Journal(path), "run-1")
    taken = 0
    while taken < EACH:
        try:
            ledger.note(Counted(float(taken), {str(os.getpid()): 1}))
            taken += 1
        except RunError:
            ledger.catch_up()


def test_no_event_is_lost_or_written_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    Ledger.begin(Journal(path), STARTED)
    assert together([partial(_append, path)] * PROCESSES_AT_ONCE) == [0] * PROCESSES_AT_ONCE
    record = Journal(path).read("run-1")
    assert record.damage is None
    counted = [event for event in record.events if isinstance(event, Counted)]
    by_process = {
        process: [e.at for e in counted if process in e.reads] for e in counted for process in e.reads
    }
    assert list(by_process.values()) == [[float(n) for n in range(EACH)]] * PROCESSES_AT_ONCE


def _reply(path: Path, kind: str) -> None:
    try:
        record_reply(
            Ledger.open(Journal(path), "run-1"), Reply(kind, reason="enough"), escalation_id=1, by=kind
        )
    except RunError:
        sys.exit(LOST)


def test_one_of_many_replies_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    ledger = Ledger.begin(Journal(path), STARTED)
    ledger.record(Lost(2.0, "gone"))
    assert ledger.state.stage is Stage.HELD
    codes = together([partial(_reply, path, kind) for kind in ("resume", "abort") * 3])
    assert sorted(codes) == [0] + [LOST] * 5
    replies = [event for event in Journal(path).read("run-1").events if isinstance(event, Replied)]
    assert len(replies) == 1
