"""Disks that are full, journals that are damaged: one clear error each, nothing lost, nothing fired twice."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.outliving import UNWRITTEN, Death, Drive, Outliving, run, together
from tests.unit.runs.test_crashes import DESTRUCTIVE, PLAYBOOK, SCRIPT, SECRET, WHOLE, Place

from reflexarc.errors import JournalError, RunError
from reflexarc.observation import Phase
from reflexarc.playbook.events import Counted, Lost, Started
from reflexarc.playbook.state import Outcome, Reason, Stage
from reflexarc.runs.describe import describe_escalation
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Outliving(tmp_path / "socket", SCRIPT).served() as machine:
        yield Place(machine, Drive(tmp_path, machine.socket, PLAYBOOK, secrets=SECRET, grant=("power",)))


# Bytes: from where not even the journal can be made to where the last events don't fit.
LIMITS = [3_000, *range(60_000, 700_000, 40_000)]


def fills_up(place: Place, limit: int) -> int:
    code = run(replace(place.drive, max_file=limit))
    assert code in (UNWRITTEN, 0)
    state = place.go_on()
    assert (state.outcome, place.machine.operations) == (Outcome.SUCCEEDED, WHOLE)
    return code


@pytest.mark.parametrize("limit", [3_000, 140_000, 220_000])
def test_a_full_disk_stops_a_run_that_then_goes_on(place: Place, limit: int) -> None:
    assert fills_up(place, limit) == UNWRITTEN


@pytest.mark.full
@pytest.mark.parametrize("limit", LIMITS)
def test_a_disk_that_is_full_anywhere(place: Place, limit: int) -> None:
    fills_up(place, limit)


def test_what_a_full_disk_says(place: Place) -> None:
    assert run(replace(place.drive, max_file=140_000)) == UNWRITTEN
    said = (place.drive.state / "error").read_text()
    assert f"{place.drive.state / 'runs.sqlite'}: the journal of runs: disk I/O error; check the disk" in said
    assert "runs resume" in said


def test_damage_in_the_middle_fires_nothing_again(place: Place) -> None:
    """Both resets are done; the journal can be read up to before the first."""
    assert run(replace(place.drive, death=Death("sent", 17))) == -9
    assert place.machine.operations.count("power.reset") == 2
    path = place.drive.state / "runs.sqlite"
    with sqlite3.connect(path) as db:
        before = db.execute("SELECT COUNT(*) FROM events").fetchone()
        db.execute("UPDATE events SET body = '{' WHERE number = 6")
    state = place.state()
    assert state is not None
    resumed = replace(place.drive, playbook=None, run_id=state.run_id)
    assert run(resumed) == 0
    state = place.state()
    assert state is not None
    assert state.escalation is not None
    assert (state.stage, state.escalation.reason) == (Stage.HELD, Reason.INTERRUPTED)
    assert "event 6 can't be read" in state.escalation.detail
    with sqlite3.connect(path) as db:
        kept = db.execute("SELECT COUNT(*) FROM damaged").fetchone()
        assert kept == (before[0] - 6,)
    # What was granted may have been used by what can't be read: it has to be granted again.
    assert run(replace(resumed, reply=Reply("amend", playbook=PLAYBOOK, resume_at="cut"))) == 0
    state = place.state()
    assert state is not None
    assert state.escalation is not None
    assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION
    assert [what for what in place.machine.operations if what in DESTRUCTIVE] == ["power.reset"] * 2


def started(run_id: str = "run-1") -> Started:
    steps = [{"name": "menu", "wait_for": "grub_menu", "action": "press_key", "args": {"key": "enter"}}]
    return Started(1.0, run_id, "lab", {"name": "p", "steps": steps}, (Phase("grub_menu"), Phase("unknown")))


@pytest.mark.parametrize("seed", range(20))
def test_damage_in_the_file_is_one_clear_error(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "runs.sqlite"
    journal = Journal(path)
    for number in range(5):
        ledger = Ledger.begin(journal, started(f"run-{number}"))
        for at in range(50):
            ledger.note(Counted(float(at), {"text": at}))
    journal.close()
    raw, chance = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(40):
        place = chance.randrange(len(raw))
        raw[place : place + 64] = chance.randbytes(64)
    path.write_bytes(raw)
    told = 0
    for act in _acts(path):
        try:
            act()
        except (JournalError, RunError):
            told += 1
    assert told > 0


def _acts(path: Path) -> list[Callable[[], object]]:
    def opened() -> Journal:
        return Journal(path)

    return [
        lambda: opened().runs(),
        lambda: opened().read("run-1"),
        lambda: opened().find("run-1"),
        lambda: Ledger.open(opened(), "run-1").take_up(),
        lambda: Ledger.open(opened(), "run-3").record(Lost(2.0, "gone")),
        lambda: opened().give_up("run-2", "enough"),
    ]


def test_a_run_lost_before_anything_was_seen_is_described(tmp_path: Path) -> None:
    ledger = Ledger.begin(Journal(tmp_path / "runs.sqlite"), started())
    ledger.record(Lost(2.0, "gone"))
    assert ledger.state.escalation is not None
    assert describe_escalation(ledger.state, ledger.state.escalation)["history"] == []


def _opened(path: Path) -> None:
    Journal(path).close()


def test_many_processes_make_the_journal_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / str(attempt) / "runs.sqlite"
        assert together([partial(_opened, path)] * 6) == [0] * 6
        assert Journal(path).runs() == []
