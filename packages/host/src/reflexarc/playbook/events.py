"""Everything that can happen to a run: the events of its journal. `at` is monotonic seconds of the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from reflexarc.observation import Observation, Phase


@dataclass(frozen=True)
class FrameRef:
    """A stored frame: its file in the run's folder, and its size in pixels."""

    ref: str
    width: int
    height: int


@dataclass(frozen=True)
class Started:
    """The run begins. place: what tells the machine from others of its name.

    policy: operation and class names that the machine's owner allows to the caller.

    secrets: name -> reference (`env:NAME`, `prompt`, `file`); the values are never here. drivers: what the
    machine is reached by, for statistics only. grant: operations that a person, `by`, authorised with it. start_at:
    index of the step to begin with. typed: `OPERATION NAME` for each variable that a person gave for a file of this
    host, and the operation that it was given for.
    """

    at: float
    run_id: str
    machine: str
    playbook: Mapping[str, object]
    phases: tuple[Phase, ...]
    variables: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    policy: tuple[str, ...] = ("*",)
    max_escalations: int = 20
    place: str = ""
    drivers: tuple[str, ...] = ()
    grant: tuple[str, ...] = ()
    by: str = ""
    start_at: int = 0
    typed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Granted:
    """A person granted operations to this run, for the steps as they stand now.

    grant: the id of a grant given in advance, which serves once; keys: the acts it is bound to, and how many of each.
    """

    at: float
    operations: tuple[str, ...]
    by: str
    grant: str = ""
    keys: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Observed:
    """The ladder concluded something, or time passed over what it had concluded."""

    at: float
    observation: Observation


@dataclass(frozen=True)
class Verified:
    """A reading of its own, taken after a destructive step was decided on."""

    at: float
    observation: Observation


@dataclass(frozen=True)
class Intended:
    """The act of the step is about to be sent; written before it is. serial_end: characters received so far."""

    at: float
    serial_end: int = 0


@dataclass(frozen=True)
class Acted:
    """What became of the act: delivered, failed (the device said no, nothing happened) or unknown.

    sent: something was sent to the machine, whatever came of it. fatal: the step itself says that the run ends.
    pressed_at: when the last key went down; a machine may answer a key before it is let go.
    """

    at: float
    delivery: str
    error: str = ""
    sent: bool = True
    fatal: bool = False
    pressed_at: float | None = None
    result: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Lost:
    """The machine can't be watched or reached any more."""

    at: float
    error: str


@dataclass(frozen=True)
class Resumed:
    """A process takes up the run that another one left; its clock starts anew."""

    at: float


@dataclass(frozen=True)
class Doubted:
    """What the run did last can't be told any more, such as when the end of its journal is damaged."""

    at: float
    detail: str


@dataclass(frozen=True)
class Looked:
    """A reading of its own, taken to find out what became of an act in doubt; effect: the device reports its effect."""

    at: float
    observation: Observation
    effect: bool = False


@dataclass(frozen=True)
class Freezing:
    """The machine of a held run is about to be frozen; written before it is."""

    at: float


@dataclass(frozen=True)
class Froze:
    """The machine stands still while the run is held; error: why it does not."""

    at: float
    error: str = ""


@dataclass(frozen=True)
class Thawed:
    """The machine goes on, before anything else is done."""

    at: float


@dataclass(frozen=True)
class Shown:
    """What the machine shows once the run is held: text, and the stored frame where one may be kept.

    outline: of the accessibility tree of the application in front, where an agent answers.
    """

    at: float
    text: str
    frame: FrameRef | None = None
    outline: str = ""


@dataclass(frozen=True)
class Lesson:
    """What a reply teaches: the evidence, all of it, by which a phase is recognised.

    text: a regular expression on the screen's text. needle: a PNG file in base64. element: what tells an element of the
    guest's tree, by role, name, value and text; it stands alone. by_agent: no person stands behind
    it, so it may end waits and nothing else.
    """

    phase: str
    text: str = ""
    needle: str = ""
    by_agent: bool = False
    element: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Replied:
    """Somebody answered the open escalation. kind: resume, amend, act, teach or abort."""

    at: float
    escalation_id: int
    kind: str
    playbook: Mapping[str, object] | None = None
    resume_at: str | int | None = None
    steps: tuple[Mapping[str, object], ...] = ()
    grant: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""
    lesson: Lesson | None = None


@dataclass(frozen=True)
class Touched:
    """Something else sent to the machine while the run was held; evidence from before is stale."""

    at: float
    operation: str
    by: str


@dataclass(frozen=True)
class Aborted:
    """Somebody ended a run that was not advancing."""

    at: float
    reason: str
    by: str


@dataclass(frozen=True)
class Counted:
    """State reads by rung since the last count; telemetry only."""

    at: float
    reads: Mapping[str, int]


Event: TypeAlias = (
    Started
    | Granted
    | Observed
    | Verified
    | Intended
    | Acted
    | Lost
    | Resumed
    | Doubted
    | Looked
    | Freezing
    | Froze
    | Thawed
    | Shown
    | Replied
    | Touched
    | Aborted
    | Counted
)
EVENTS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (
        Started, Granted, Observed, Verified, Intended, Acted, Lost, Resumed, Doubted, Looked, Freezing, Froze,
        Thawed, Shown, Replied, Touched, Aborted, Counted,
    )
}  # fmt: skip
