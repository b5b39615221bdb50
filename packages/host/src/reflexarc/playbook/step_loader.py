"""Plain data to steps."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reflexarc.errors import PlaybookError
from reflexarc.playbook.actions import ACTIONS, Action, Argument, check_keys
from reflexarc.playbook.condition_loader import ConditionLoader
from reflexarc.playbook.conditions import Condition, ValueIs
from reflexarc.playbook.document import Document, Path
from reflexarc.playbook.fields import Fields, spell, unknown
from reflexarc.playbook.format import REPEATING, STEP, WORD
from reflexarc.playbook.model import Step

_NAME = re.compile(WORD)


def load_step(document: Document, path: Path, raw: object, conditions: ConditionLoader) -> Step:
    """Check one step and compile it; raises PlaybookError with its place."""
    fields = Fields(document, path, raw, STEP, "a step")
    action = _action(fields)
    args, condition_args = _arguments(fields, action, conditions)
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


def _arguments(
    fields: Fields, action: Action | None, conditions: ConditionLoader
) -> tuple[dict[str, object], dict[str, Condition]]:
    raw = {} if fields.get("args") is None else fields.get("args")
    if action is None:
        if raw != {}:
            raise fields.error("args", "args stand beside an action, and this step has none")
        return {}, {}
    known = action.arguments
    given = Fields(fields.document, (*fields.path, "args"), raw, known, f"the arguments of {action.name}")
    args: dict[str, object] = {}
    condition_args: dict[str, Condition] = {}
    for name, argument in known.items():
        if given.get(name) is None:
            if argument.required:
                raise fields.error("args" if raw else "action", f"{action.name} needs the argument {name!r}")
            args[name] = argument.default
        elif argument.type == "condition":
            condition = conditions.load((*given.path, name), given.get(name))
            if condition is not None:
                condition_args[name] = condition
        else:
            args[name] = _argument(given, name, argument)
    return args, condition_args


def _argument(given: Fields, name: str, argument: Argument) -> object:
    low = 0.0 if argument.minimum is None else argument.minimum
    high = 1e6 if argument.maximum is None else argument.maximum
    if argument.type == "integer":
        return given.integer(name, int(low), int(high))
    if argument.type == "number":
        return given.number(name, low, high)
    if argument.type == "boolean":
        return given.flag(name)
    value = given.get(name)
    if not isinstance(value, str):
        # YAML reads 0123 as 83: what is typed has to be what is written.
        hint = "" if isinstance(value, Mapping | list) else "; quote it"
        raise given.error(name, f"{name} is text, not {spell(value)}{hint}")
    if argument.type in ("key", "chord"):
        if "{{" in value:
            raise given.error(name, "a key is written out: values are never substituted into keys")
        try:
            check_keys(argument, value)
        except PlaybookError as error:
            raise given.error(name, error.message) from error
    return value


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
