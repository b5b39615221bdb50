"""What a step costs in engine and journal: a played run of 500 steps, beside a workflow engine and bare SQLite.

Each step waits for a screen, presses a key and awaits the next screen. Counted is what the runner spends on
advancing the state and on the journal, not what reading the screen and holding the key take. Then, 200 held runs in
one journal: what listing them takes, and the command as a whole.

Prints a table, and as its last line one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.played import lab, text

from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.observation import Phase
from reflexarc.playbook.events import Event, Lost, Started
from reflexarc.playbook.state import Outcome, RunState, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger

STEPS, HELD, LISTINGS = 500, 200, 20
PEER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reflexarc-bench/dbos/bin/python"


class TimedLedger(Ledger):
    """Adds up the seconds that recording took, and how many events there were."""

    spent = 0.0
    events = 0

    def record(self, event: Event) -> bool:
        began = time.perf_counter()
        try:
            return super().record(event)
        finally:
            self.spent += time.perf_counter() - began
            self.events += 1

    def note(self, event: Event) -> None:
        began = time.perf_counter()
        super().note(event)
        self.spent += time.perf_counter() - began
        self.events += 1


async def our_steps(folder: Path) -> tuple[list[float], float]:
    """Milliseconds of engine and journal of each step of a run, and its events a step."""
    pages = [text([f"item {number}"]) for number in range(STEPS + 1)]
    played = ReplayScript(
        entries=(Entry(0.0, pages[0]),),
        reactions=tuple(Reaction((Entry(0.0, page),), key="enter") for page in pages[1:]),
    )
    steps = [
        {"name": f"step {number}", "wait_for": {"text": f"^item {number}$"}, "action": "press_key",
         "args": {"key": "enter"}}
        for number in range(STEPS)
    ]  # fmt: skip
    times: list[float] = []
    async with lab(folder, played) as it:
        last = 0.0

        def listener(event: Event, before: RunState, state: RunState) -> None:
            nonlocal last
            if state.index != before.index:
                times.append((ledger.spent - last) * 1000)
                last = ledger.spent

        run = await it.session.begin({"name": "many steps", "steps": steps}, listener=listener)
        ledger = TimedLedger(run.runner.ledger.journal, run.state, 1)
        run.runner.ledger = ledger
        assert (await run.drive()).outcome is Outcome.SUCCEEDED
        return times, ledger.events / STEPS


def bare_inserts(folder: Path, rows: int) -> list[float]:
    """Milliseconds of one row a step, each committed as the journal commits."""
    db = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE e (n INTEGER, body TEXT)"
    )
    times = []
    for number in range(rows):
        began = time.perf_counter()
        db.execute("INSERT INTO e VALUES (?, ?)", (number, "x" * 300))
        times.append((time.perf_counter() - began) * 1000)
    db.close()
    return times


def engine_steps(folder: Path) -> list[float] | None:
    """Milliseconds of each step of the workflow engine; None where it isn't installed."""
    if not PEER.exists():
        return None
    program = Path(__file__).with_name("peer_dbos.py")
    done = subprocess.run([PEER, program, str(STEPS), folder], capture_output=True, text=True, check=True)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def held_runs(folder: Path) -> None:
    """A journal with so many held runs."""
    journal = Journal(folder / "runs.sqlite")
    phases = (Phase("grub_menu"), Phase("unknown"))
    steps = [{"name": "menu", "wait_for": "grub_menu", "action": "press_key", "args": {"key": "enter"}}]
    for number in range(HELD):
        ledger = Ledger.begin(
            journal, Started(1.0, f"run-{number}", "lab", {"name": "p", "steps": steps}, phases)
        )
        ledger.record(Lost(2.0, "gone"))
    journal.close()


def listing(folder: Path) -> list[float]:
    """Milliseconds of opening the journal and listing its held runs."""
    times = []
    for _ in range(LISTINGS):
        began = time.perf_counter()
        journal = Journal(folder / "runs.sqlite")
        assert len(journal.runs(stage=Stage.HELD)) == HELD
        times.append((time.perf_counter() - began) * 1000)
        journal.close()
    return times


def command(folder: Path, *arguments: str) -> list[float]:
    """Milliseconds of a whole process."""
    environment = {**os.environ, "REFLEXARC_STATE": str(folder)}
    times = []
    for _ in range(LISTINGS):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
        times.append((time.perf_counter() - began) * 1000)
    return times


def summary(times: Sequence[float]) -> dict[str, float]:
    return {
        "median_ms": round(statistics.median(times), 3),
        "p90_ms": round(statistics.quantiles(times, n=10)[-1], 3),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "run").mkdir()
        times, events = asyncio.run(our_steps(folder / "run"))
        inserts, steps = bare_inserts(folder, STEPS), engine_steps(folder)
        held_runs(folder)
        figures: dict[str, dict[str, float] | float] = {
            "engine and journal, a step": summary(times),
            "listing 200 held runs": summary(listing(folder)),
            "`runs list`, the process": summary(command(folder, "-m", "reflexarc", "runs", "list")),
            "events a step": round(events, 2),
        }
        peers: dict[str, dict[str, float] | str] = {
            "one bare SQLite insert a step": summary(inserts),
            "DBOS, a step": "not installed" if steps is None else summary(steps),
            "click and sqlite3 imported, the process": summary(
                command(folder, "-c", "import click, sqlite3")
            ),
        }
    if steps is not None:
        figures["times faster than DBOS"] = round(statistics.median(steps) / statistics.median(times), 1)
    for name, found in {**figures, **peers}.items():
        shown = (
            f"{found['median_ms']:>9} ms median {found['p90_ms']:>9} ms p90"
            if isinstance(found, dict)
            else found
        )
        print(f"{name:<42} {shown}")
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    print(json.dumps({"name": "runner", "figures": figures, "peers": peers, "machine": machine}))


if __name__ == "__main__":
    main()
