"""What agents may do with runs, by the entries of the machines that those are of; it is all in the audit log."""

from __future__ import annotations

from contextlib import suppress

from reflexarc.errors import ConfigError, SafetyError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import entry_of_run
from reflexarc.machine.guard import Guard
from reflexarc.mcp import auditing
from reflexarc.runs.journal import Journal, Summary


def guard(entry: Entry, *, dry_run: bool = False) -> Guard:
    """The guard of a machine before an agent, for what needs no open machine."""
    return Guard(entry.name, entry.policy, agent=True, via="mcp", dry_run=dry_run, audit=auditing.write)


def found(journal: Journal, run_id: str) -> tuple[Summary, Entry]:
    """The run whose id begins so, and its machine.

    Raises RunError where there is no such run, ConfigError where its machine isn't in the inventory any more: then
    nobody says what agents may do with it, and a person must end it.
    """
    run = journal.summary(journal.find(run_id))
    return run, _entry(run)


def readable(journal: Journal, run_id: str) -> str:
    """The whole id of a run that agents may read; raises as `found` does, and SafetyError for another one."""
    run, entry = found(journal, run_id)
    guard(entry).check_run("run.read", run=run.run_id)
    return run.run_id


def check_readable(entry: Entry) -> None:
    """Raise SafetyError where agents may not read the runs of a machine, before anything is done to one.

    A call that did it and was refused its answer would be made again.
    """
    entry.policy.check_run("run.read", agent=True, machine=entry.name)


def all_readable(journal: Journal) -> list[Summary]:
    """The runs that agents may read, newest first; it is no reading yet, and has no line in the audit log."""
    known: dict[str, bool] = {}
    runs = journal.runs()
    for run in runs:
        if run.place not in known:
            known[run.place] = _is_readable(run)
    return [run for run in runs if known[run.place]]


def _is_readable(run: Summary) -> bool:
    with suppress(ConfigError, SafetyError):
        check_readable(_entry(run))
        return True
    return False


def _entry(run: Summary) -> Entry:
    entry = entry_of_run(run.run_id, run.machine, None)
    if entry.place != run.place:
        raise ConfigError(f"run {run.run_id} belongs to a machine {run.machine} of another inventory")
    return entry
