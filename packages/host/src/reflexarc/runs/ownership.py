"""Which process drives a run: it holds the run's lock for as long as it does."""

from __future__ import annotations

from pathlib import Path

from reflexarc.machine.lock import MachineLock
from reflexarc.runs.artifacts import RunFolder


def run_lock(runs: Path, run_id: str) -> MachineLock:
    """The lock of the process that drives a run."""
    return MachineLock(RunFolder(runs, run_id).lock, f"run {run_id}", "the process that drives it")


def is_driven(runs: Path, run_id: str) -> bool:
    """Tell whether a process drives the run now."""
    lock = runs / run_id / "lock"
    if not lock.exists():
        return False
    return MachineLock(lock, run_id, "").held_by_another()
