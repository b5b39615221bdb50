"""A compiled playbook as plain data: each step with what it waits for, does and needs."""

from __future__ import annotations

from reflexarc.observation import Phases
from reflexarc.playbook.conditions import phases_in, spell
from reflexarc.playbook.model import DEFAULT_TIMEOUT, Playbook, Step


def describe_playbook(playbook: Playbook, phases: Phases) -> dict[str, object]:
    """The playbook as JSON; times in seconds, conditions in words."""
    alarms = playbook.alarm
    if alarms is None:
        alarms = tuple(name for name, phase in phases.items() if phase.alarm)
    return {
        "name": playbook.name,
        "description": playbook.description,
        "needs": sorted(playbook.needs),
        "authorize": list(playbook.authorize),
        "alarm": list(alarms),
        "on_unknown": playbook.on_unknown,
        "unknown_after": playbook.unknown_after,
        "variables": [
            {
                "name": variable.name,
                "required": variable.required,
                "secret": variable.secret,
                "default": variable.default,
                "description": variable.description,
            }
            for variable in playbook.variables.values()
        ],
        "steps": [_step(index, step, playbook, phases) for index, step in enumerate(playbook.steps)],
    }


def _step(index: int, step: Step, playbook: Playbook, phases: Phases) -> dict[str, object]:
    conditions = {name: spell(condition) for name, condition in step.condition_args.items()}
    given = {name: value for name, value in step.args.items() if value not in (None, "")}
    return {
        "index": index,
        "name": step.name,
        "when": None if step.when is None else spell(step.when),
        "waits_for": None if step.wait_for is None else spell(step.wait_for),
        "timeout": None if step.wait_for is None else _timeout(step, playbook, phases),
        "passing": list(step.passing),
        "action": step.action,
        "arguments": {**given, **conditions},
        "operation": step.operation,
        "must_be_authorised": step.authorisation,
        "verified_before": _verified(step),
        "expects": None if step.expect is None else spell(step.expect),
        "registers": step.register,
    }


def _verified(step: Step) -> str | None:
    if step.authorisation is None:
        return None
    return "nothing: it is unverified" if step.must_hold is None else spell(step.must_hold)


def _timeout(step: Step, playbook: Playbook, phases: Phases) -> float:
    own = playbook.timeout if step.timeout is None else step.timeout
    usual = (phases[name].usual_max for name in phases_in(step.wait_for))
    return max(usual, default=DEFAULT_TIMEOUT) if own is None else own
