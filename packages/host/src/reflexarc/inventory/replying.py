"""Answers to runs from any process: taken where the run is driven, or left to whoever goes on with it; their ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from reflexarc.inventory.opening import end_of_lost_run, end_of_run, entry_of_run, inventory_of_run
from reflexarc.inventory.places import places
from reflexarc.playbook.words import Stage
from reflexarc.runs.journal import Summary
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.ownership import is_driven
from reflexarc.runs.run import AtEnd, Run
from reflexarc.runs.runner import Listener
from reflexarc.runs.session import Session

Record = Callable[[Ledger], None]
"""Journals a reply; raises as `record_reply` does."""
LEAVING = 1.0
"""Seconds in which a process that goes away at a hold lets its run go."""
POLL = 0.1


def is_lost(run_id: str) -> bool:
    """Tell whether the inventory is gone that the run was started from."""
    own = inventory_of_run(run_id)
    return own is not None and not own.exists()


def ending(run: Summary, inventory: Path | None = None, *, by: str = "", dry_run: bool = False) -> AtEnd:
    """What is done once a run has ended, also where its inventory is gone; by, dry_run: as of `end_of_run`.

    Raises ConfigError as `entry_of_run` does, save for that.
    """
    if is_lost(run.run_id):

        async def lost(run_id: str) -> None:
            await asyncio.to_thread(end_of_lost_run, run.machine, run.place, run_id)

        return lost
    entry = entry_of_run(run.run_id, run.machine, inventory)

    async def at_end(run_id: str) -> None:
        await end_of_run(entry, run_id, by=by, dry_run=dry_run)

    return at_end


async def give(ledger: Ledger, record: Record, at_end: AtEnd | None) -> Record | None:
    """Give a reply to a held run where that needs no open machine: a process drives it, or the reply ends it.

    at_end: what is done then, where the reply is to end it.

    Returns what is left to journal by whoever goes on with it, `taken_up` with that; None where nobody has to, for it
    is driven, held anew or has ended.
    """
    driven = is_driven(places().runs, ledger.state.run_id)
    if not driven and at_end is None:
        return record
    record(ledger)
    if driven and not await _left(ledger):
        return None
    if at_end is not None and ledger.state.stage is Stage.ENDED:
        await at_end(ledger.state.run_id)
    return None if ledger.state.stage in (Stage.HELD, Stage.ENDED) else given_already


def given_already(ledger: Ledger) -> None:
    """Journal nothing: the reply is in the journal, or there is none."""


def taken_up(
    session: Session,
    run_id: str,
    record: Record,
    *,
    secret_values: Mapping[str, str] | None = None,
    listener: Listener | None = None,
) -> Run:
    """Take a run up that no process drives, and journal what is left of a reply; raises as both do, and lets it go."""
    run = session.take_up(run_id, secret_values=secret_values, listener=listener)
    try:
        if record is not given_already:
            session.lock.acquire()
        record(run.runner.ledger)
    except BaseException:
        run.release()
        raise
    return run


async def _left(ledger: Ledger) -> bool:
    """Tell whether the process that drove a run went away as it was answered."""
    deadline = time.monotonic() + LEAVING
    while is_driven(places().runs, ledger.state.run_id):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL)
    ledger.catch_up()
    return True
