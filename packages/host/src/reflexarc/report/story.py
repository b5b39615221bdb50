"""A run as its reports tell it: the journal walked once, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from reflexarc.errors import RunError
from reflexarc.observation import UNKNOWN, Observation
from reflexarc.playbook import engine
from reflexarc.playbook.events import (
    Aborted,
    Acted,
    Event,
    Granted,
    Intended,
    Looked,
    Observed,
    Replied,
    Resumed,
    Started,
    Touched,
    Verified,
)
from reflexarc.playbook.model import Step
from reflexarc.playbook.state import Escalation, Outcome, RunState, Stage
from reflexarc.runs.describe import outcome_name
from reflexarc.runs.gallery import Index, Kept, read_index
from reflexarc.runs.journal import Journal, Record
from reflexarc.runs.ownership import is_driven
from reflexarc.runs.telemetry import BUCKETS, Telemetry, measure, seconds_between


class StepOutcome(StrEnum):
    """How a step went. left: it was held, and the reply went on elsewhere."""

    PASSED = "passed"
    FAILED = "failed"
    ABORTED = "aborted"
    HELD = "held"
    UNDER_WAY = "under way"
    INTERRUPTED = "interrupted"
    LEFT = "left"
    SKIPPED = "skipped"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Span:
    """What a step did from `begin` to `end`, in seconds since the run began. kind: waiting, acting or held."""

    kind: str
    begin: float
    end: float


@dataclass(frozen=True)
class Sighting:
    """What was seen, in seconds since the run began; frame: None where none was kept."""

    at: float
    observation: Observation
    frame: Kept | None = None

    @property
    def rung(self) -> str:
        return self.observation.origin or self.observation.rung

    @property
    def words(self) -> str:
        """The phase, or that it was a text that was seen."""
        seen = self.observation
        return "text" if seen.phase == UNKNOWN and seen.text else f"{seen.phase} by {self.rung}"


@dataclass
class Hold:
    """An escalation and what became of it; end None while it is open."""

    escalation: Escalation
    begin: float
    end: float | None = None
    answer: str = ""
    touched: list[str] = field(default_factory=list)


@dataclass(eq=False)
class StepStory:
    """One step. decided: what its wait ended on.

    sights: that, what was expected after the act, and the phases that the machine entered meanwhile.
    """

    step: Step
    outcome: StepOutcome = StepOutcome.LEFT
    spans: list[Span] = field(default_factory=list)
    sights: list[Sighting] = field(default_factory=list)
    decided: Sighting | None = None
    acts: int = 0
    note: str = ""

    def decide(self, sight: Sighting) -> None:
        """The wait ended on this; of a phase entered just before, it is the better picture: that was half drawn."""
        self.decided = sight
        newest = self.sights[-1] if self.sights else None
        if newest is not None and newest.observation.phase == sight.observation.phase:
            self.sights[-1] = Sighting(newest.at, sight.observation, sight.frame or newest.frame)
        elif sight.frame is not None and newest is not sight:
            self.sights.append(sight)

    @property
    def seconds(self) -> float:
        return sum(span.end - span.begin for span in self.spans)


@dataclass
class Story:
    """A whole run. started: seconds since the epoch. seconds: how long the run is, gaps between processes included.

    last: what was seen last. final: the frame that the machine showed as the run failed.
    """

    state: RunState
    outcome: str
    started: float
    seconds: float
    steps: list[StepStory]
    holds: list[Hold]
    notes: list[tuple[float, str]]
    telemetry: Telemetry
    gallery: Index
    folder: Path
    damage: str | None
    last: Sighting | None
    final: Kept | None

    @property
    def present(self) -> StepStory | None:
        """The step at which a run stands that has not succeeded."""
        return None if self.state.outcome is Outcome.SUCCEEDED else self._named(self.state.step.name)

    def _named(self, name: str) -> StepStory | None:
        return next((step for step in self.steps if step.step.name == name), None)


def tell(journal: Journal, runs: Path, run_id: str) -> Story:
    """Read a run; runs is the folder of all runs. Raises RunError for a run that isn't there or can't be read."""
    record = journal.read(run_id)
    if not record.events or not isinstance(record.events[0], Started):
        raise RunError(f"run {run_id}: its start can't be read ({record.damage})", run_id=run_id)
    folder = runs / run_id
    return _Teller(record, record.events[0], folder).story(owned=is_driven(runs, run_id))


class _Teller:
    def __init__(self, record: Record, started: Started, folder: Path) -> None:
        self._record = record
        self._folder = folder
        self._gallery = read_index(folder)
        self._frames: Mapping[float, Kept] = {kept.at: kept for kept in self._gallery.frames}
        self._now = 0.0
        self._state = engine.start(started)
        self._steps: dict[str, StepStory] = {}
        self._holds: list[Hold] = []
        self._notes: list[tuple[float, str]] = []
        self._last: Sighting | None = None
        self._final: Kept | None = None

    def story(self, *, owned: bool) -> Story:
        first = self._record.walls[0]
        self._entered(self._state)
        if isinstance(started := self._record.events[0], Started) and started.grant:
            self._tell(f"granted {', '.join(started.grant)} by {started.by}")
        spans = seconds_between(self._record.events, self._record.walls)
        for event, span in zip(self._record.events[1:], spans, strict=True):
            earlier, self._now = self._now, self._now + span
            if not isinstance(event, Resumed):
                self._spent(earlier)
            before, self._state = self._state, engine.advance(self._state, event)
            self._took(event, before, self._state)
        outcome = outcome_name(self._state, owned=owned)
        return Story(
            state=self._state,
            outcome=outcome,
            started=first,
            seconds=self._now,
            steps=self._all_steps(outcome),
            holds=self._holds,
            notes=self._notes,
            telemetry=measure(self._record.events, self._record.walls),
            gallery=self._gallery,
            folder=self._folder,
            damage=self._record.damage,
            last=self._last,
            final=self._final,
        )

    def _spent(self, begin: float) -> None:
        kind = BUCKETS.get(self._state.stage)
        spans = self._entered(self._state).spans
        if kind is None or self._now <= begin:
            return
        if spans and spans[-1].kind == kind and spans[-1].end == begin:
            begin = spans.pop().begin
        spans.append(Span(kind, begin, self._now))

    def _entered(self, state: RunState) -> StepStory:
        return self._steps.setdefault(state.step.name, StepStory(state.step))

    def _took(self, event: Event, before: RunState, after: RunState) -> None:
        if isinstance(event, Observed | Verified | Looked):
            self._saw(event, before, after)
        else:
            self._did(event, before)
        self._held(event, after)
        story = self._steps[before.step.name]
        advanced = after.index != before.index or after.outcome is Outcome.SUCCEEDED
        if advanced and not isinstance(event, Replied):
            inapplicable = isinstance(event, Observed) and not before.applies
            story.outcome = (
                StepOutcome.SKIPPED if inapplicable and story.decided is None else StepOutcome.PASSED
            )
        if before.failing is not None and after.outcome is not None:
            went_back = isinstance(event, Acted) and event.delivery == "delivered"
            story.outcome = StepOutcome.PASSED if went_back else StepOutcome.FAILED
        if after.outcome is None:
            self._entered(after)
        elif after.outcome is Outcome.FAILED and before.outcome is None:
            self._final = self._frames.get(event.at)

    def _saw(self, event: Observed | Verified | Looked, before: RunState, after: RunState) -> None:
        sight = Sighting(self._now, event.observation, self._frames.get(event.at))
        story = self._steps[before.step.name]
        self._last = sight
        if after.phase != before.phase:
            story.sights.append(sight)
        if after.seen is not event.observation or after.stage is Stage.HELD:
            return
        if before.stage is Stage.WAITING and before.applies:
            story.decide(sight)
        elif before.stage is Stage.EXPECTING and after.phase == before.phase:
            story.sights.append(sight)

    def _did(self, event: Event, before: RunState) -> None:
        story = self._steps[before.step.name]
        match event:
            case Intended():
                story.acts += 1
            case Acted():
                story.note = event.error or str(event.result.get("text", ""))
            case Granted():
                self._tell(f"granted {', '.join(event.operations)} by {event.by}")
            case Touched():
                self._tell(f"{event.operation}, sent by {event.by}")
                if self._holds:
                    self._holds[-1].touched.append(event.operation)
            case Resumed():
                self._tell("taken up by another process")
            case _:
                pass

    def _held(self, event: Event, after: RunState) -> None:
        """Open, complete and close escalations."""
        held = after.escalation
        newest = self._holds[-1] if self._holds else None
        if held is not None and (newest is None or newest.escalation.id != held.id):
            self._holds.append(Hold(held, self._now))
        elif held is not None and newest is not None:
            newest.escalation = held
        if newest is not None and newest.end is None and isinstance(event, Replied | Aborted):
            newest.end = self._now
            newest.answer = _answer(event)

    def _tell(self, what: str) -> None:
        self._notes.append((self._now, what))

    def _all_steps(self, outcome: str) -> list[StepStory]:
        """The steps in the order they were entered, those that never were before the next that was."""
        state = self._state
        told = list(self._steps.values())
        place = len(told)
        for index, step in reversed(list(enumerate(state.playbook.steps))):
            if step.name in self._steps:
                place = told.index(self._steps[step.name])
            else:
                passed_over = index < state.index or state.outcome is Outcome.SUCCEEDED
                told.insert(
                    place, StepStory(step, StepOutcome.SKIPPED if passed_over else StepOutcome.NOT_REACHED)
                )
        if state.outcome is not Outcome.SUCCEEDED:
            self._steps[state.step.name].outcome = _STANDING[outcome]
        return told


_STANDING = {
    "failed": StepOutcome.FAILED,
    "aborted": StepOutcome.ABORTED,
    "held": StepOutcome.HELD,
    "running": StepOutcome.UNDER_WAY,
    "interrupted": StepOutcome.INTERRUPTED,
}


def _answer(event: Replied | Aborted) -> str:
    if isinstance(event, Aborted):
        return f"aborted by {event.by}: {event.reason}"
    what = {
        "teach": f"taught {event.lesson.phase}" if event.lesson else "taught",
        "amend": f"amended the playbook, to go on at {event.resume_at!r}"
        if event.resume_at is not None
        else "amended the playbook",
        "act": f"{len(event.steps)} more step{'s' * (len(event.steps) != 1)}, then the held one again",
        "abort": f"aborted: {event.reason}",
    }.get(event.kind, event.kind)
    grant = f", granted {', '.join(event.grant)}" if event.grant else ""
    return f"{what}{grant} ({event.by or 'unknown'})"
