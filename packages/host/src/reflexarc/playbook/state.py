"""The state of a run, as its journal adds up to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reflexarc.observation import Observation, Phases
from reflexarc.playbook.events import FrameRef, Lesson
from reflexarc.playbook.grants import key_of
from reflexarc.playbook.model import Playbook, Step
from reflexarc.playbook.words import FreezeState, Outcome, Reason, Stage

__all__ = ["Escalation", "FreezeState", "Outcome", "Reason", "RunState", "Stage", "Visit"]


@dataclass(frozen=True)
class Visit:
    """A phase that was seen, from `at` on."""

    phase: str
    at: float
    rung: str


@dataclass(frozen=True)
class Escalation:
    """What a held run says. detail: the device's or the rule's own words."""

    id: int
    at: float
    step_index: int
    step_name: str
    reason: Reason
    expected: tuple[str, ...]
    detail: str = ""
    observed_phase: str = ""
    confidence: float = 0.0
    rung: str = ""
    text: str = ""
    frame: FrameRef | None = None
    outline: str = ""
    history: tuple[Visit, ...] = ()


@dataclass(frozen=True)
class RunState:
    """A run at one moment.

    since: when the stage began. sent_at: evidence from before doesn't count. must_change: the screen has to
    change after `sent_at` before the awaited condition counts. seen: what the last step matched on.
    taken_up: another process sent last; whether the screen changed since is told by comparing it with `seen`.
    lingering: the phase an act was sent in, until another one was recognised.
    applies: the step's `when` was found to hold. evidence: what verified the precondition of the act.
    requested: inline steps that their reply asked for. found: what the step's wait registers.
    grants: remaining uses by grant key. redeemed: grants given in advance that this run has used up. typed: as in
    the event `Started`. freeze: of the machine, for a hold; freeze_error: why it is passive. failing: index of
    the step at which the run failed, while it goes back to a saved state before it ends.
    """

    run_id: str
    machine: str
    playbook: Playbook
    phases: Phases
    variables: Mapping[str, object]
    secrets: Mapping[str, str]
    policy: tuple[str, ...]
    max_escalations: int
    place: str = ""
    index: int = 0
    stage: Stage = Stage.WAITING
    since: float = 0.0
    matching_since: float | None = None
    alarm: tuple[str, float] | None = None
    sent_at: float = float("-inf")
    serial_mark: int = 0
    input_sent: bool = False
    acted: bool = False
    lingering: str | None = None
    must_change: bool = False
    taken_up: bool = False
    seen: Observation | None = None
    evidence: Observation | None = None
    attempts: int = 0
    applies: bool = True
    requested: frozenset[str] = frozenset()
    found: Mapping[str, object] = field(default_factory=dict)
    registered: Mapping[str, object] = field(default_factory=dict)
    history: tuple[Visit, ...] = ()
    escalation: Escalation | None = None
    escalations: int = 0
    grants: Mapping[str, int] = field(default_factory=dict)
    typed: frozenset[str] = frozenset()
    freeze: FreezeState = FreezeState.NONE
    freeze_error: str = ""
    failing: int | None = None
    lessons: tuple[Lesson, ...] = ()
    redeemed: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def step(self) -> Step:
        return self.playbook.steps[self.index]

    @property
    def is_frozen(self) -> bool:
        """Tell whether the machine was, or may have been, frozen for a hold and not let go since."""
        return self.freeze in (FreezeState.FREEZING, FreezeState.FROZEN)

    @property
    def scope(self) -> Mapping[str, object]:
        """What templates may look up, secrets left out."""
        return {**self.registered, **self.variables}

    def key_of(self, step: Step) -> str:
        """The key of a destructive step's grant, as the run stands."""
        return key_of(step, self.machine, self.playbook, self.scope)

    @property
    def phase(self) -> str:
        return self.history[-1].phase if self.history else ""

    @property
    def min_confidence(self) -> float:
        own = self.step.min_confidence
        return self.playbook.min_confidence if own is None else own
