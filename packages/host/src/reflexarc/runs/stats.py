"""Statistics across runs, from the journal: outcomes, times, the cheap share, escalations by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from reflexarc.playbook.events import Started
from reflexarc.playbook.state import Outcome
from reflexarc.runs.journal import Journal, Record, Summary
from reflexarc.runs.ownership import standing
from reflexarc.runs.telemetry import Telemetry, measure

GROUPINGS = ("playbook", "machine", "driver")
UNKNOWN = "unknown"


@dataclass
class Group:
    """Runs that have something in common. seconds: of those that succeeded, held time left out."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    total: Telemetry = field(default_factory=Telemetry)

    @property
    def runs(self) -> int:
        return sum(self.outcomes.values())

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.seconds else None

    @property
    def p90(self) -> float | None:
        """The shortest time within which nine in ten of them ended."""
        if not self.seconds:
            return None
        ordered = sorted(self.seconds)
        return ordered[-(-len(ordered) * 9 // 10) - 1]

    def add(self, outcome: str, cost: Telemetry) -> None:
        """Count in a run."""
        self.outcomes[outcome] += 1
        self.total.reads.update(cost.reads)
        self.total.escalations.update(cost.escalations)
        self.total.retries += cost.retries
        if outcome == Outcome.SUCCEEDED:
            self.seconds.append(sum(step.waiting + step.acting for step in cost.steps))

    def as_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "name": self.name,
            "runs": self.runs,
            "outcomes": dict(self.outcomes),
            "median_seconds": None if self.median is None else round(self.median, 3),
            "p90_seconds": None if self.p90 is None else round(self.p90, 3),
            "cheap_share": round(self.total.cheap_share, 4),
            "vision_calls": self.total.vision_calls,
            "escalations": dict(self.total.escalations),
            "retries": self.total.retries,
        }


def stats(journal: Journal, runs: Path, by: str, *, limit: int | None = None) -> list[Group]:
    """The newest runs in groups, the largest first; by: playbook, machine or driver.

    A run on a machine of several drivers counts for each of them. What can't be read is left out.
    """
    groups: dict[str, Group] = {}
    for run in journal.runs()[:limit]:
        record = journal.read(run.run_id)
        if not record.events:
            continue
        cost, outcome = measure(record.events, record.walls), standing(run, runs)
        for name in _names(run, record, by):
            groups.setdefault(name, Group(name)).add(outcome, cost)
    return sorted(groups.values(), key=lambda group: (-group.runs, group.name))


def _names(run: Summary, record: Record, by: str) -> Sequence[str]:
    first = record.events[0]
    if by == "driver":
        return (first.drivers if isinstance(first, Started) else ()) or (UNKNOWN,)
    if by == "machine":
        return (run.machine,)
    # A run that was amended goes by another name by now.
    return (str(first.playbook.get("name", UNKNOWN)) if isinstance(first, Started) else run.playbook,)
