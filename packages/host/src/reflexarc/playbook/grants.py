"""Grants: what a person authorised, bound to operation, machine, arguments, precondition and count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from reflexarc.machine.policy import covers
from reflexarc.playbook.conditions import spell
from reflexarc.playbook.model import Playbook, Step
from reflexarc.playbook.template import names_in, render


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


def key_of(step: Step, machine: str, variables: Mapping[str, object]) -> str:
    """The key under which a destructive step's grant is kept; equal only for the very same act."""
    arguments = {name: _bound(value, variables) for name, value in sorted(step.args.items())}
    condition = step.must_hold
    precondition = [type(condition).__name__, asdict(condition)] if condition is not None else None
    bound = [step.authorisation, step.operation, machine, arguments, precondition, step.min_confidence]
    return json.dumps(bound, default=str)


def _bound(value: object, variables: Mapping[str, object]) -> object:
    if isinstance(value, Mapping):
        return {name: _bound(item, variables) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bound(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    known = all(name.split(".", 1)[0] in variables for name in names_in(value))
    return render(value, variables) if known else value


def granted_keys(
    steps: Iterable[Step], operations: Sequence[str], machine: str, variables: Mapping[str, object]
) -> Mapping[str, int]:
    """How often each destructive act of these steps may fire once these operations are granted."""
    return Counter(
        key_of(step, machine, variables)
        for step in steps
        if step.authorisation is not None and covers(operations, step.authorisation)
    )


def requests(playbook: Playbook, variables: Mapping[str, object], *, start_at: int = 0) -> list[Request]:
    """Every destructive step of a playbook from an index on, as a grant prompt shows them."""
    resort = playbook.last_resort
    ahead = (*playbook.steps[start_at:], *([resort] if resort else []))
    return [
        Request(
            step=step.name,
            operation=step.authorisation,
            arguments=", ".join(f"{k}={_bound(v, variables)}" for k, v in step.args.items() if v is not None),
            verified_by=spell(step.must_hold),
            unverified=step.must_hold is None,
        )
        for step in ahead
        if step.authorisation is not None
    ]


def refusal(
    step: Step,
    *,
    machine: str,
    requested: Sequence[str],
    policy: Sequence[str],
    grants: Mapping[str, int],
    variables: Mapping[str, object],
) -> str | None:
    """Why the destructive step may not fire now, in words with the remedy; None where it may."""
    operation = step.authorisation
    if operation is None:
        return None
    if not covers(requested, operation):
        return f"the playbook does not ask for {operation}: add it to authorize.ops"
    if not covers(policy, operation):
        return f"the policy of {machine} does not allow {operation}: its owner can, in the inventory"
    if grants.get(key_of(step, machine, variables), 0) < 1:
        return f"{operation} is not granted to this step as it stands: a person can, with --grant {operation}"
    return None
