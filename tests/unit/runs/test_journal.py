"""The journal: append-only, fenced, readable after damage, cheap to list."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflexarc.errors import JournalError, RunError
from reflexarc.observation import Phase
from reflexarc.playbook.events import Intended, Lost, Resumed, Started
from reflexarc.playbook.state import Reason, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger

PHASES = (Phase("grub_menu"), Phase("unknown"))


def started(run_id: str = "run-1", machine: str = "lab") -> Started:
    step = {"name": "menu", "wait_for": "grub_menu", "action": "press_key", "args": {"key": "enter"}}
    return Started(1.0, run_id, machine, {"name": "p", "steps": [step]}, PHASES)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "runs.sqlite")
    yield journal
    journal.close()


def test_what_is_appended_is_read(journal: Journal) -> None:
    ledger = Ledger.begin(journal, started())
    ledger.record(Lost(2.0, "gone"))
    again = Ledger.open(Journal(journal.path), "run-1")
    assert again.state == ledger.state
    assert again.state.stage is Stage.HELD


def test_an_event_that_changes_nothing_is_not_kept(journal: Journal) -> None:
    ledger = Ledger.begin(journal, started())
    assert not ledger.record(Intended(2.0))
    assert journal.count("run-1") == 1


def test_the_fence_lets_one_of_two_go_on(journal: Journal) -> None:
    Ledger.begin(journal, started())
    first, second = Ledger.open(journal, "run-1"), Ledger.open(Journal(journal.path), "run-1")
    first.record(Lost(2.0, "gone"))
    with pytest.raises(RunError, match="another process"):
        second.record(Lost(2.0, "gone too"))
    assert second.state.stage is Stage.WAITING
    assert second.catch_up()
    assert second.state == first.state


def test_it_is_private(journal: Journal) -> None:
    Ledger.begin(journal, started())
    for path in journal.path.parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"at": "x"}', '{"at": 1.0}', '{"at": 1.0, "error": 7}', "null"]
)
def test_a_damaged_end_is_set_aside_and_asked_about(journal: Journal, body: str) -> None:
    ledger = Ledger.begin(journal, started())
    ledger.record(Lost(2.0, "gone"))
    with sqlite3.connect(journal.path) as db:
        db.execute("UPDATE events SET body = ? WHERE number = 1", (body,))
    record = journal.read("run-1")
    assert (len(record.events), record.damage is not None) == (1, True)
    again = Ledger.open(journal, "run-1")
    again.take_up()
    assert again.state.escalation is not None
    assert again.state.escalation.reason is Reason.INTERRUPTED
    assert journal.read("run-1").damage is None
    with sqlite3.connect(journal.path) as db:
        assert db.execute("SELECT number, body FROM damaged").fetchall() == [(1, body)]


def test_a_hole_is_damage(journal: Journal) -> None:
    ledger = Ledger.begin(journal, started())
    ledger.record(Lost(2.0, "gone"))
    ledger.record(Resumed(3.0))
    with sqlite3.connect(journal.path) as db:
        db.execute("DELETE FROM events WHERE number = 1")
    assert journal.read("run-1").damage == "event 1 can't be read: event 1 is missing"


def test_a_damaged_start_is_told(journal: Journal) -> None:
    Ledger.begin(journal, started())
    with sqlite3.connect(journal.path) as db:
        db.execute("UPDATE events SET body = '{' WHERE number = 0")
    with pytest.raises(RunError, match="its start can't be read"):
        Ledger.open(journal, "run-1")


def test_a_file_that_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(JournalError, match="keep a copy"):
        Journal(tmp_path / "runs.sqlite")


def test_a_journal_of_another_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript("CREATE TABLE runs (run_id TEXT); PRAGMA user_version = 7")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another version"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="rights"):
        Journal(tmp_path / "file" / "runs.sqlite")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    class SmallJournal(Journal):
        """A journal whose file may not grow, as on a full disk."""

        def limit(self) -> None:
            self._db.execute("PRAGMA max_page_count = 1")

    journal = SmallJournal(tmp_path / "runs.sqlite")
    ledger = Ledger.begin(journal, started())
    journal.limit()
    with pytest.raises(JournalError, match="free some space"):
        ledger.record(Lost(2.0, "x" * 200_000))
    assert ledger.state.stage is Stage.WAITING
    again = Ledger.open(Journal(journal.path), "run-1")
    assert again.state == ledger.state
    assert again.record(Lost(2.0, "x" * 200_000))


def test_listing(journal: Journal) -> None:
    for n in range(3):
        Ledger.begin(journal, started(f"run-{n}", machine=f"lab{n % 2}"))
    Ledger.open(journal, "run-1").record(Lost(2.0, "gone"))
    assert {run.run_id for run in journal.runs(machine="lab0")} == {"run-0", "run-2"}
    assert [(run.run_id, run.reason) for run in journal.runs(stage="held")] == [("run-1", "connection_lost")]
    assert journal.find("run-2") == "run-2"
    for prefix in ("run-", "x", ""):
        with pytest.raises(RunError):
            journal.find(prefix)
