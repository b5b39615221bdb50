"""Telemetry of a run, read from its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from reflexarc.playbook import engine
from reflexarc.playbook.events import Acted, Counted, Event, Replied, Resumed, Started
from reflexarc.playbook.state import RunState, Stage

# Rungs that ask a model; none of them is on the ladder unless somebody configures it.
MODEL_RUNGS = frozenset({"vision"})

# Seconds by which the two clocks may differ from one event to the next.
SKEW = 60.0

# What the run did, by its stage.
BUCKETS = {
    Stage.WAITING: "waiting",
    Stage.EXPECTING: "waiting",
    Stage.VERIFYING: "acting",
    Stage.FIRING: "acting",
    Stage.ACTING: "acting",
    Stage.IN_DOUBT: "acting",
    Stage.HELD: "held",
}


@dataclass
class StepTime:
    """Seconds that one step took, by what the run did meanwhile."""

    name: str
    waiting: float = 0.0
    acting: float = 0.0
    held: float = 0.0


@dataclass
class Telemetry:
    """What a run cost. reads: state reads by rung. cheap_share: reads resolved without a model ÷ all.

    corrections: how often lost or doubled keys were put right. warnings: what went on though it was doubtful.
    """

    seconds: float = 0.0
    reads: Counter[str] = field(default_factory=Counter)
    escalations: Counter[str] = field(default_factory=Counter)
    replies: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    corrections: int = 0
    warnings: tuple[str, ...] = ()
    steps: list[StepTime] = field(default_factory=list)

    @property
    def vision_calls(self) -> int:
        return sum(count for rung, count in self.reads.items() if rung in MODEL_RUNGS)

    @property
    def cheap_resolves(self) -> int:
        return sum(self.reads.values()) - self.reads["none"] - self.vision_calls

    @property
    def cheap_share(self) -> float:
        total = sum(self.reads.values())
        return self.cheap_resolves / total if total else 1.0

    def as_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "seconds": round(self.seconds, 3),
            "reads": dict(self.reads),
            "cheap_resolves": self.cheap_resolves,
            "vision_calls": self.vision_calls,
            "cheap_share": round(self.cheap_share, 4),
            "escalations": dict(self.escalations),
            "replies": dict(self.replies),
            "retries": self.retries,
            "corrections": self.corrections,
            "warnings": list(self.warnings),
            "steps": [
                {
                    "name": step.name,
                    "waiting": round(step.waiting, 3),
                    "acting": round(step.acting, 3),
                    "held": round(step.held, 3),
                }
                for step in self.steps
            ],
        }


def seconds_between(events: Sequence[Event], walls: Sequence[float]) -> list[float]:
    """Seconds from each event to the next, by the clock on the wall.

    Where it was put right meanwhile, the clock of the host is believed, which begins anew with each boot only.
    """
    spans = []
    for index in range(1, len(events)):
        wall, own = walls[index] - walls[index - 1], events[index].at - events[index - 1].at
        jumped = 0 <= own < wall - SKEW or wall < 0 <= own
        spans.append(own if jumped and not isinstance(events[index], Resumed) else max(0.0, wall))
    return spans


def measure(events: Sequence[Event], walls: Sequence[float]) -> Telemetry:
    """Add up a journal; walls are the wall-clock seconds of the events."""
    found = Telemetry()
    first = events[0]
    if not isinstance(first, Started):
        return found
    state = engine.start(first)
    for event, elapsed in zip(events[1:], seconds_between(events, walls), strict=True):
        # Until a process goes on with it a run is held, or nothing happens.
        idle = isinstance(event, Resumed) and state.stage is not Stage.HELD
        _spend(found, state, 0.0 if idle else elapsed)
        after = engine.advance(state, event)
        _tally(found, event, state, after)
        state = after
    found.warnings = state.warnings
    found.seconds = sum(step.waiting + step.acting + step.held for step in found.steps)
    return found


def _spend(found: Telemetry, state: RunState, elapsed: float) -> None:
    bucket = BUCKETS.get(state.stage)
    if bucket is None:
        return
    step = next((step for step in found.steps if step.name == state.step.name), None)
    if step is None:
        step = StepTime(state.step.name)
        found.steps.append(step)
    setattr(step, bucket, getattr(step, bucket) + elapsed)


def _tally(found: Telemetry, event: Event, before: RunState, after: RunState) -> None:
    if isinstance(event, Counted):
        found.reads.update(event.reads)
    elif isinstance(event, Replied):
        found.replies[event.kind] += 1
    elif isinstance(event, Acted) and isinstance(corrected := event.result.get("corrected"), int):
        found.corrections += corrected
    if after.attempts > before.attempts and after.stage is Stage.FIRING:
        found.retries += 1
    if after.escalations > before.escalations and after.escalation is not None:
        found.escalations[after.escalation.reason] += 1
