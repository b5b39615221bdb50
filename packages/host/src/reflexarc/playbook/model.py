"""The one step model that YAML, JSON and replies are loaded into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reflexarc.playbook.actions import ACTIONS, Action, needs_authorisation, operation_of
from reflexarc.playbook.conditions import Condition, capabilities_of, is_evidential

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

    source: the plain data it was compiled from; compiling that again gives an equal playbook.
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
    min_confidence: float = 0.8
    hold_for: float | None = None

    @property
    def defaults(self) -> Mapping[str, object]:
        """The variables that have a default, with it."""
        return {v.name: v.default for v in self.variables.values() if v.default is not None}

    @property
    def needs(self) -> frozenset[str]:
        """Capabilities that the steps need, and those that `requires` names."""
        requires = self.source.get("requires") or ()
        named = (
            frozenset(str(name) for name in requires) if isinstance(requires, list | tuple) else frozenset()
        )
        acting = frozenset(s.spec.capability for s in self.steps if s.spec and s.spec.capability)
        looking = (capabilities_of(condition) for step in self.steps for condition in step.conditions)
        return named.union(acting, *looking)

    def index_of(self, name: str) -> int | None:
        """Index of the step of that name."""
        return next((i for i, step in enumerate(self.steps) if step.name == name), None)
