"""Plain data to steps."""

from __future__ import annotations

import re

from reflexarc.playbook.actions import ACTIONS, Action
from reflexarc.playbook.argument_loader import load_arguments
from reflexarc.playbook.condition_loader import ConditionLoader
from reflexarc.playbook.conditions import ValueIs
from reflexarc.playbook.document import Document, Path
from reflexarc.playbook.fields import Fields, unknown
from reflexarc.playbook.format import REPEATING, STEP, WORD
from reflexarc.playbook.model import Step

_NAME = re.compile(WORD)


def load_step(document: Document, path: Path, raw: object, conditions: ConditionLoader) -> Step:
    """Check one step and compile it; raises PlaybookError with its place."""
    if isinstance(raw, dict) and "include" in raw:
        raise document.error((*path, "include"), "steps are included by playbooks in files only")
    fields = Fields(document, path, raw, STEP, "a step")
    action = _action(fields)
    args, condition_args = load_arguments(fields, action, conditions)
    passing = fields.texts("passing")
    for index, phase in enumerate(passing):
        conditions.phase_name((*path, "passing", index), phase)
    retries = fields.integer("retries")
    expect_timeout = fields.number("expect_timeout")
    step = Step(
        name=fields.required_text("name", "a step"),
        action=action.name if action else None,
        args=args,
        condition_args=condition_args,
        wait_for=conditions.load((*path, "wait_for"), fields.get("wait_for")),
        destructive=fields.flag("destructive"),
        precondition=conditions.load((*path, "precondition"), fields.get("precondition")),
        passing=passing,
        expect=conditions.load((*path, "expect"), fields.get("expect")),
        expect_timeout=10.0 if expect_timeout is None else expect_timeout,
        retries=2 if retries is None else retries,
        timeout=fields.number("timeout"),
        min_confidence=fields.number("min_confidence"),
        hold_for=fields.number("hold_for"),
        when=conditions.load((*path, "when"), fields.get("when")),
        register=_register(fields),
    )
    _check_whole(fields, step)
    return step


def _action(fields: Fields) -> Action | None:
    name = fields.text("action")
    if name is None:
        return None
    if name not in ACTIONS:
        raise fields.error("action", unknown("action", name, ACTIONS))
    return ACTIONS[name]


def _register(fields: Fields) -> str | None:
    name = fields.text("register")
    if name is not None and not _NAME.fullmatch(name):
        raise fields.error("register", f"a name to register is a word of letters, digits and _, not {name!r}")
    return name


def _check_whole(fields: Fields, step: Step) -> None:
    if step.action is None and step.wait_for is None:
        raise fields.error("name", f"the step {step.name!r} neither waits for anything nor does anything")
    needed = step.authorisation
    if needed and needed != "step.destructive" and not step.destructive:
        raise fields.error(
            "action", f"{step.action} is {needed}, which is destructive: say so with `destructive: true`"
        )
    repeated = step.action in REPEATING or step.args.get("times", 1) != 1
    if needed and needed != "step.destructive" and repeated:
        raise fields.error("action", f"{needed} is authorised for one press at a time; press it once")
    if step.destructive and step.action is None:
        raise fields.error("destructive", "a step without an action can't be destructive")
    if step.expect is not None and step.action is None:
        raise fields.error("expect", "expect tells what an action must lead to, and this step has none")
    if step.expect is not None and isinstance(step.expect, ValueIs):
        raise fields.error("expect", "expect looks at the machine; a value can't change by itself")
