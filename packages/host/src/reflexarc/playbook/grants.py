"""Grants: what a person authorised, bound to operation, machine, arguments, precondition and count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass

from reflexarc.errors import PlaybookError
from reflexarc.machine.policy import covers
from reflexarc.playbook.conditions import phases_in, spell
from reflexarc.playbook.model import Playbook, Step
from reflexarc.playbook.template import look_up, names_in, render


@dataclass(frozen=True)
class Request:
    """One destructive step as a person is asked about it. verified_by: what is checked immediately before.

    unverified: nothing is.
    """

    step: str
    operation: str
    arguments: str
    verified_by: str
    unverified: bool


def key_of(step: Step, machine: str, playbook: Playbook, scope: Mapping[str, object]) -> str:
    """The key under which a destructive step's grant is kept; equal only for the very same act.

    scope: the variables, and the results there are by now; secrets are bound by their names.
    """
    confidence = playbook.min_confidence if step.min_confidence is None else step.min_confidence
    bound = [
        step.authorisation,
        step.action,
        step.operation,
        machine,
        {name: _bound(value, scope) for name, value in sorted(step.args.items())},
        {name: _spelt(condition) for name, condition in sorted(step.condition_args.items())},
        _spelt(step.precondition or step.wait_for),
        confidence,
        _withholding(step, playbook) if step.must_hold is None else None,
    ]
    return json.dumps(bound, default=str)


def _bound(value: object, scope: Mapping[str, object]) -> object:
    """A value as it is known now; text whose names have no value yet stands beside those that have one."""
    if isinstance(value, Mapping):
        return {name: _bound(item, scope) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bound(item, scope) for item in value]
    if not isinstance(value, str):
        return value
    known = {}
    for name in names_in(value):
        with suppress(PlaybookError):
            known[name] = str(look_up(name, scope))
    if len(known) == len(set(names_in(value))):
        return render(value, scope)
    return {"template": value, "known": known}


def _spelt(value: object) -> object:
    """A condition with the kind of each of its parts: `any` and `all` of the same parts are two things."""
    if is_dataclass(value):
        parts = {field.name: _spelt(getattr(value, field.name)) for field in fields(value)}
        return [type(value).__name__, parts]
    return [_spelt(item) for item in value] if isinstance(value, tuple) else value


def _withholding(step: Step, playbook: Playbook) -> object:
    """What alone can withhold a step that nothing verifies: the alarms, but for phases that it names."""
    return [playbook.alarm, sorted(step.passing), sorted(phases_in(step.expect))]


def granted_keys(
    steps: Iterable[Step],
    operations: Sequence[str],
    key: Callable[[Step], str],
    *,
    most: int | None = None,
) -> Mapping[str, int]:
    """How often each destructive act of these steps may fire once these operations are granted.

    most: how many acts of one operation are granted at most, the first ones; all where it is not given.
    """
    keys: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for step in steps:
        operation = step.authorisation
        if operation is None or not covers(operations, operation):
            continue
        if most is None or taken[operation] < most:
            taken[operation] += 1
            keys[key(step)] += 1
    return dict(keys)


def requests(steps: Iterable[Step], scope: Mapping[str, object]) -> list[Request]:
    """Every destructive one of these steps, as a grant prompt shows it."""
    return [
        Request(
            step=step.name,
            operation=step.authorisation,
            arguments=", ".join(f"{k}={_shown(v, scope)}" for k, v in step.args.items() if v is not None),
            verified_by=spell(step.must_hold),
            unverified=step.must_hold is None,
        )
        for step in steps
        if step.authorisation is not None
    ]


def _shown(value: object, scope: Mapping[str, object]) -> str:
    bound = _bound(value, scope)
    return str(value) if isinstance(bound, Mapping) else str(bound)


def refusal(
    step: Step,
    *,
    machine: str,
    requested: Sequence[str],
    policy: Sequence[str],
    granted: bool,
) -> str | None:
    """Why the destructive step may not fire now, in words with the remedy; None where it may."""
    operation = step.authorisation
    if operation is None:
        return None
    if not covers(requested, operation):
        return f"the playbook does not ask for {operation}: add it to authorize.ops"
    if not covers(policy, operation):
        return f"the policy of {machine} does not allow {operation}: its owner can, in the inventory"
    if not granted:
        return (
            f"{operation} is not granted to this step as it stands: a person can, with `reflexarc grant` and this "
            f"run's id, or with --grant {operation}"
        )
    return None
