"""The one step model that YAML, JSON and replies are loaded into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reflexarc.errors import PlaybookError
from reflexarc.observation import CONFIDENT
from reflexarc.playbook.actions import ACTIONS, Action, needs_authorisation, operation_of
from reflexarc.playbook.conditions import Condition, capabilities_of, is_evidential
from reflexarc.playbook.fields import unknown
from reflexarc.playbook.template import sole_name

DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True)
class Variable:
    """A declared variable; `default` None and `required` True where it must be given."""

    name: str
    default: object = None
    required: bool = False
    secret: bool = False
    description: str = ""


@dataclass(frozen=True)
class Step:
    """One step; times in seconds; None where the playbook's default holds."""

    name: str
    action: str | None = None
    args: Mapping[str, object] = field(default_factory=dict)
    condition_args: Mapping[str, Condition] = field(default_factory=dict)
    wait_for: Condition | None = None
    destructive: bool = False
    precondition: Condition | None = None
    passing: tuple[str, ...] = ()
    expect: Condition | None = None
    expect_timeout: float = 10.0
    retries: int = 2
    timeout: float | None = None
    min_confidence: float | None = None
    hold_for: float | None = None
    when: Condition | None = None
    register: str | None = None

    @property
    def spec(self) -> Action | None:
        return ACTIONS[self.action] if self.action else None

    @property
    def operation(self) -> str | None:
        return operation_of(self.spec, self.args) if self.spec else None

    @property
    def authorisation(self) -> str | None:
        """The operation that must be authorised for this step, None where none must be."""
        return needs_authorisation(self.spec, self.operation, declared=self.destructive)

    @property
    def must_hold(self) -> Condition | None:
        """What must hold immediately before a destructive step fires, where it looks at the machine at all."""
        condition = self.precondition or self.wait_for
        return condition if is_evidential(condition) else None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every condition of the step."""
        own = (self.when, self.wait_for, self.precondition, self.expect)
        return tuple(c for c in (*own, *self.condition_args.values()) if c is not None)


@dataclass(frozen=True)
class Playbook:
    """A whole playbook, checked.

    source: the plain data it was compiled from; compiling that again gives an equal playbook. hold: what is done
    with the machine while the run is held. rollback: the saved state that a run which fails goes back to.
    """

    name: str
    steps: tuple[Step, ...]
    source: Mapping[str, object] = field(compare=False)
    description: str = ""
    variables: Mapping[str, Variable] = field(default_factory=dict)
    authorize: tuple[str, ...] = ()
    alarm: tuple[str, ...] | None = None
    on_unknown: str = "escalate"
    unknown_after: float = 10.0
    timeout: float | None = None
    min_confidence: float = CONFIDENT
    hold_for: float | None = None
    hold: str = "passive"
    rollback: str | None = None

    @property
    def last_resort(self) -> Step | None:
        """What a run that fails does before it ends: it goes back to a saved state."""
        if self.rollback is None:
            return None
        name = f"on_failure: back to {self.rollback}"
        return Step(name, action="rollback", args={"name": self.rollback}, destructive=True)

    def ahead(self, index: int) -> tuple[Step, ...]:
        """The steps from an index on, and what is done if one of them fails."""
        resort = self.last_resort
        return (*self.steps[index:], *([resort] if resort else []))

    @property
    def defaults(self) -> Mapping[str, object]:
        """The variables that have a default, with it."""
        return {v.name: v.default for v in self.variables.values() if v.default is not None}

    @property
    def needs(self) -> frozenset[str]:
        """Capabilities that the steps need, and those that `requires` names."""
        return self.needs_from(0)

    def needs_from(self, index: int) -> frozenset[str]:
        """Those that are needed from the step of that index on."""
        requires = self.source.get("requires") or ()
        named = (
            frozenset(str(name) for name in requires) if isinstance(requires, list | tuple) else frozenset()
        )
        steps = [*self.steps[index:], *([self.last_resort] if self.last_resort else [])]
        acting = (s.spec.needs for s in steps if s.spec)
        looking = (capabilities_of(condition) for step in steps for condition in step.conditions)
        return named.union(*acting, *looking)

    @property
    def host_variables(self) -> Mapping[str, frozenset[str]]:
        """Variables that are, wholly, the path of a file on this host, and the operations that they are it for."""
        found: dict[str, frozenset[str]] = {}
        for step in self.steps:
            for argument, spec in step.spec.arguments.items() if step.spec else ():
                name = sole_name(str(step.args.get(argument) or "")) if spec.type == "path" else None
                if name is not None:
                    found[name] = found.get(name, frozenset()) | {str(step.operation)}
        return found

    def start_index(self, start_at: str | int) -> int:
        """The index of a step given by its name or index; raises PlaybookError where there is none."""
        if isinstance(start_at, str):
            found = self.index_of(start_at)
            if found is None and not (start_at.isascii() and start_at.isdigit()):
                names = [step.name for step in self.steps]
                raise PlaybookError("start at: " + unknown("step", start_at, names))
            start_at = int(start_at) if found is None else found
        if not 0 <= start_at < len(self.steps):
            raise PlaybookError(
                f"start at: the playbook has steps 0 to {len(self.steps) - 1}, not {start_at}"
            )
        return start_at

    def index_of(self, name: str) -> int | None:
        """Index of the step of that name."""
        return next((i for i, step in enumerate(self.steps) if step.name == name), None)
