"""Which process drives a run: it holds the run's lock for as long as it does; and how a run stands by that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reflexarc.machine.lock import MachineLock
from reflexarc.playbook.words import Stage
from reflexarc.runs.artifacts import RunFolder

if TYPE_CHECKING:
    from reflexarc.runs.journal import Summary


def run_lock(runs: Path, run_id: str) -> MachineLock:
    """The lock of the process that drives a run."""
    return MachineLock(RunFolder(runs, run_id).lock, f"run {run_id}", "the process that drives it")


def is_driven(runs: Path, run_id: str) -> bool:
    """Tell whether a process drives the run now."""
    return MachineLock(runs / run_id / "lock", f"run {run_id}", "").holder() is not None


def standing(run: Summary, runs: Path) -> str:
    """How a run of a list stands, in the same words; runs is the folder of all runs."""
    if run.outcome or run.stage == Stage.HELD:
        return run.outcome or "held"
    return "running" if is_driven(runs, run.run_id) else "interrupted"
