"""The journal: every run's events, append-only, in one SQLite file; the truth about all runs.

Each event has its number; two processes that append the same number to one run can't both succeed, so exactly
one of them goes on (the fence). A row of summary a run, written with each event, makes listing cheap; what
events are is loaded with the first of them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reflexarc.errors import JournalError, RunError
from reflexarc.machine.lock import FileLock

if TYPE_CHECKING:
    from reflexarc.playbook.events import Event, Started
    from reflexarc.playbook.state import RunState

VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, machine TEXT NOT NULL, place TEXT NOT NULL, playbook TEXT NOT NULL, created REAL NOT NULL,
    updated REAL NOT NULL, stage TEXT NOT NULL, step TEXT NOT NULL, outcome TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_by_machine ON runs (place, stage);
CREATE TABLE IF NOT EXISTS events (
    run_id TEXT NOT NULL, number INTEGER NOT NULL, wall REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS damaged (run_id TEXT, number INTEGER, wall REAL, kind TEXT, body TEXT);
"""


@dataclass(frozen=True)
class Summary:
    """A run as a list shows it; times are seconds since the epoch."""

    run_id: str
    machine: str
    place: str
    playbook: str
    created: float
    updated: float
    stage: str
    step: str
    outcome: str
    reason: str


@dataclass(frozen=True)
class Record:
    """The events of a run in order, with the wall time of each; damage says where reading had to stop."""

    events: tuple[Event, ...]
    walls: tuple[float, ...]
    damage: str | None = None


class Journal:
    """The journal in one file; raises JournalError when the file can't be read or written.

    read_only: nothing is made or written, and what writes raises; where there is no file there are no runs.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        with self._translated():
            if read_only:
                self._db = self._opened_to_read()
                return
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A file that is there isn't opened: closing it would drop the locks of SQLite's other connections in this
            # process, and another process would take the log away from under them. Source: close(2), POSIX locks.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            path.chmod(0o600)
            self._db = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            self._prepare()

    def _opened_to_read(self) -> sqlite3.Connection:
        place = self.path.absolute().as_uri()
        # SQLite shares the index of its log in a file beside; where none can be made, and there is no log, nobody
        # writes either.
        ways = ["mode=ro"] if Path(f"{self.path}-wal").exists() else ["mode=ro", "immutable=1"]
        for way in ways if self.path.exists() else ():
            db = sqlite3.connect(f"{place}?{way}", uri=True, timeout=10.0, isolation_level=None)
            try:
                if self._require_version(db):
                    return db
                db.close()
                break
            except sqlite3.OperationalError:
                db.close()
                if way == ways[-1]:
                    raise
        # Nobody has begun a journal here, or somebody is about to.
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.executescript(f"{_SCHEMA} PRAGMA user_version={VERSION}; PRAGMA query_only=1;")
        return db

    def _prepare(self) -> None:
        if not self._require_version(self._db):
            with self._alone():
                self._create()
        self._db.execute("PRAGMA synchronous=NORMAL")
        # Moving the log into the file waits for the disk; a run is over before that is due.
        self._db.execute("PRAGMA wal_autocheckpoint=4000")

    def _require_version(self, db: sqlite3.Connection) -> bool:
        """Tell whether the tables are there; raises JournalError where they are of another version."""
        # In one statement: another process may make the tables between two.
        version, tables = db.execute(
            "SELECT user_version, (SELECT COUNT(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        if version != VERSION and tables:
            raise JournalError(
                "the journal of runs was written by another version of reflexarc; move it away to begin a new one",
                path=self.path,
            )
        return bool(tables)

    def _create(self) -> None:
        if not self._require_version(self._db):
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")

    def _alone(self) -> FileLock:
        """Keeps other processes from making the journal at once: SQLite waits for nobody where it switches to WAL."""
        return FileLock(Path(f"{self.path}.lock"))

    def check(self) -> None:
        """Look through the whole file for damage; raises JournalError where there is any."""
        with self._translated():
            (first,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
            if first != "ok":
                raise sqlite3.DatabaseError(first)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def append(
        self, number: int, event: Event, state: RunState, *, durable: bool = False, changed: bool = True
    ) -> None:
        """Write event `number` of a run together with the summary of the state after it, where that has changed.

        durable: on the disk before this returns, even if the host loses power.
        Raises RunError when the run has that event already: another process goes on with it.
        """
        from reflexarc.runs.codec import encode

        kind, body = encode(event)
        wall = time.time()
        with self._translated(), self._transaction(durable=durable):
            try:
                self._db.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?)", (state.run_id, number, wall, kind, body)
                )
            except sqlite3.IntegrityError:
                raise RunError(
                    f"run {state.run_id}: another process went on with it; see `reflexarc runs show`",
                    run_id=state.run_id,
                ) from None
            if changed:
                self._summarise(state, wall)

    def _summarise(self, state: RunState, wall: float) -> None:
        reason = state.reason if state.escalation is None else state.escalation.reason
        self._db.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE SET"
            " playbook=excluded.playbook, updated=excluded.updated, stage=excluded.stage,"
            " step=excluded.step, outcome=excluded.outcome, reason=excluded.reason",
            (
                state.run_id, state.machine, state.place, state.playbook.name, wall, wall, state.stage,
                state.step.name, state.outcome or "", reason,
            ),
        )  # fmt: skip

    def read(self, run_id: str) -> Record:
        """All events of a run, up to the first that can't be read; raises RunError for an unknown run."""
        from reflexarc.runs.codec import decode

        with self._translated():
            rows = self._db.execute(
                "SELECT number, wall, kind, body FROM events WHERE run_id = ? ORDER BY number", (run_id,)
            ).fetchall()
        if not rows:
            raise RunError(f"there is no run {run_id}; `reflexarc runs list` shows all", run_id=run_id)
        events: list[Event] = []
        walls: list[float] = []
        for expected, (number, wall, kind, body) in enumerate(rows):
            try:
                if number != expected:
                    raise ValueError(f"event {expected} is missing")
                if not isinstance(wall, float):
                    raise ValueError(f"its time is {wall!r}")
                events.append(decode(kind, body))
            except ValueError as error:
                return Record(tuple(events), tuple(walls), f"event {expected} can't be read: {error}")
            walls.append(wall)
        return Record(tuple(events), tuple(walls))

    def start(self, run_id: str) -> Started:
        """The start of a run; raises RunError where it can't be read."""
        from reflexarc.playbook.events import Started
        from reflexarc.runs.codec import decode

        with self._translated():
            row = self._db.execute(
                "SELECT kind, body FROM events WHERE run_id = ? AND number = 0", (run_id,)
            ).fetchone()
        with suppress(ValueError):
            event = decode(*row) if row else None
            if isinstance(event, Started):
                return event
        raise RunError(f"run {run_id}: its start can't be read", run_id=run_id)

    def count(self, run_id: str) -> int:
        """How many events the run has."""
        with self._translated():
            row = self._db.execute("SELECT COUNT(*) FROM events WHERE run_id = ?", (run_id,)).fetchone()
        return int(row[0])

    def has(self, run_id: str, number: int) -> bool:
        """Tell whether the run has that event."""
        with self._translated():
            row = self._db.execute(
                "SELECT COUNT(*) FROM events WHERE run_id = ? AND number = ?", (run_id, number)
            ).fetchone()
        return bool(row[0])

    def set_aside(self, run_id: str, number: int) -> None:
        """Move the events from `number` on, which can't be read, out of the way; they are kept."""
        with self._translated(), self._transaction(durable=True):
            where = "FROM events WHERE run_id = ? AND number >= ?"
            self._db.execute(f"INSERT INTO damaged SELECT * {where}", (run_id, number))
            self._db.execute(f"DELETE {where}", (run_id, number))

    def give_up(self, run_id: str, reason: str) -> None:
        """Mark a run that can't be read as aborted; its events are kept as they are."""
        with self._translated(), self._transaction(durable=True):
            self._db.execute(
                "UPDATE runs SET stage = 'ended', outcome = 'aborted', reason = ?, updated = ? WHERE run_id = ?",
                (reason, time.time(), run_id),
            )

    def runs(
        self,
        *,
        machine: str | None = None,
        place: str | None = None,
        stage: str | None = None,
        open_only: bool = False,
    ) -> list[Summary]:
        """The runs, newest first; open_only leaves out those that have ended."""
        with self._translated():
            rows = self._db.execute(
                "SELECT run_id, machine, place, playbook, created, updated, stage, step, outcome, reason FROM runs"
                " WHERE (?1 IS NULL OR machine = ?1) AND (?2 IS NULL OR stage = ?2)"
                " AND (NOT ?3 OR stage <> 'ended') AND (?4 IS NULL OR place = ?4) ORDER BY created DESC",
                (machine, stage, open_only, place),
            ).fetchall()
            if not all(
                isinstance(cell, kind) for row in rows for cell, kind in zip(row, _CELLS, strict=True)
            ):
                raise sqlite3.DatabaseError("a row of it is no run")
        return [Summary(*row) for row in rows]

    def summary(self, run_id: str) -> Summary:
        """The run of that id; raises RunError where there is none."""
        for run in self.runs():
            if run.run_id == run_id:
                return run
        raise RunError(f"there is no run {run_id}; `reflexarc runs list` shows all", run_id=run_id)

    def find(self, prefix: str) -> str:
        """The whole id of the one run whose id begins so; raises RunError where none or several do."""
        with self._translated():
            rows = self._db.execute(
                "SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ? LIMIT 3", (len(prefix), prefix)
            ).fetchall()
        if len(rows) == 1 and prefix:
            return str(rows[0][0])
        what = "several runs begin with" if rows and prefix else "there is no run"
        raise RunError(f"{what} {prefix!r}; `reflexarc runs list` shows all", run_id=prefix)

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[None]:
        if durable:
            self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise
        finally:
            if durable:
                self._db.execute("PRAGMA synchronous=NORMAL")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            what = "it holds what is no text" if isinstance(error, UnicodeDecodeError) else error
            raise JournalError(f"the journal of runs: {what}; {_remedy(error)}", path=self.path) from error
        except OSError as error:
            raise JournalError(
                f"the journal of runs: {error.strerror}; check that folder's rights and the disk",
                path=self.path,
            ) from error


_CELLS = (str, str, str, str, float, float, str, str, str, str)
_GO_ON = "then `reflexarc runs resume`; nothing that was written is lost"
_REMEDIES = {
    sqlite3.SQLITE_FULL: f"free some space, {_GO_ON}",
    sqlite3.SQLITE_IOERR: f"check the disk, its free space and the limit on the size of files, {_GO_ON}",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "make the file and its folder writable",
    sqlite3.SQLITE_PERM: "make the file and its folder writable",
    sqlite3.SQLITE_BUSY: "another process has it open for long; try again",
    sqlite3.SQLITE_LOCKED: "another process has it open for long; try again",
}


def _remedy(error: sqlite3.DatabaseError | UnicodeDecodeError) -> str:
    # The lower byte of an extended code is the code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    damaged = "the file is damaged: keep a copy, and move it away to begin a new journal"
    return _REMEDIES.get(code, damaged)
