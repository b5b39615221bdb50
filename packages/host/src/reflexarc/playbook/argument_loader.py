"""Plain data to the arguments of an action."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from reflexarc.errors import PlaybookError
from reflexarc.playbook import needles
from reflexarc.playbook.actions import Action, Argument, check_keys
from reflexarc.playbook.condition_loader import ConditionLoader
from reflexarc.playbook.conditions import Condition
from reflexarc.playbook.element_loader import check_selection, element_text, load_ref, load_selector
from reflexarc.playbook.fields import Fields, spell, unknown

MAX_ITEMS = 1000
ENVIRONMENT_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
MAX_COORDINATE = 32_768


def load_arguments(
    fields: Fields, action: Action | None, conditions: ConditionLoader
) -> tuple[dict[str, object], dict[str, Condition]]:
    """The arguments of a step's action and, apart from them, those that are conditions; raises PlaybookError."""
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
    _check_alternatives(fields, action, given)
    check_selection(fields, action, given)
    for prefix in ("", "to_"):
        _check_needle(given, prefix)
    return args, condition_args


def _check_alternatives(fields: Fields, action: Action, given: Fields) -> None:
    """Of each set of alternatives exactly one has to be given, and wholly."""
    for alternatives in action.one_of:
        names = {name for alternative in alternatives for name in alternative}
        present = {name for name in names if given.get(name) is not None}
        if present not in [set(alternative) for alternative in alternatives]:
            spelled = " or ".join(" and ".join(alternative) for alternative in alternatives if alternative)
            place = given if present else fields
            raise place.error(
                next(iter(sorted(present)), "args"), f"{action.name} takes one of: {spelled}; exactly one"
            )


def _check_needle(given: Fields, prefix: str) -> None:
    """A picture that is aimed at has its bytes with it, and no bytes stand there without one."""
    name, image = given.get(f"{prefix}needle"), given.get(f"{prefix}image")
    if not isinstance(name, str):
        if image is not None:
            raise given.error(f"{prefix}image", f"{prefix}image stands beside {prefix}needle")
        return
    try:
        needles.decode(needles.required(image))
    except ValueError as error:
        raise given.error(f"{prefix}needle", f"the needle {name!r}: {error}") from error


def _argument(given: Fields, name: str, argument: Argument) -> object:
    match argument.type:
        case "integer":
            return given.integer(name, int(argument.minimum or 0), int(_most(argument)))
        case "number":
            return given.number(name, argument.minimum or 0.0, _most(argument))
        case "boolean":
            return given.flag(name)
        case "coordinate":
            return _coordinate(given, name)
        case "pattern":
            return given.pattern(name)
        case "integers":
            return tuple(_integers(given, name, argument))
        case "texts":
            return tuple(_texts(given, name))
        case "mapping":
            return _mapping(given, name)
        case "element" | "element_text" | "ref" | "value":
            return _of_element(given, name, argument.type)
        case _:
            return _text(given, name, argument)


def _of_element(given: Fields, name: str, kind: str) -> object:
    """What tells an element, or what it is set to."""
    value = given.get(name)
    match kind:
        case "element":
            load_selector(given.document, (*given.path, name), value)
            return {
                key: part for key, part in cast("Mapping[str, object]", value).items() if part is not None
            }
        case "element_text":
            return element_text(given, name)
        case "ref":
            return load_ref(given, name)
    if isinstance(value, str | bool | int | float):
        return value
    raise given.error(name, f"{name} is text, a number or true/false, not {spell(value)}")


def _most(argument: Argument) -> float:
    return 1e6 if argument.maximum is None else argument.maximum


def _coordinate(given: Fields, name: str) -> int | float:
    """Whole pixels as an integer, a share of the screen as a float."""
    value = given.get(name)
    if isinstance(value, float) and 0 <= value <= 1:
        return value
    pixels = _whole(value)
    if pixels is not None and 0 <= pixels < MAX_COORDINATE:
        return pixels
    raise given.error(name, f"{name} is a whole number of pixels, or a share of the screen from 0.0 to 1.0")


def _whole(value: object) -> int | None:
    """A whole number, however it is written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value)


def _items(given: Fields, name: str) -> list[object]:
    value = given.get(name)
    if not isinstance(value, list) or not value or len(value) > MAX_ITEMS:
        raise given.error(name, f"{name} is a list of 1 to {MAX_ITEMS} values, not {spell(value)}")
    return value


def _integers(given: Fields, name: str, argument: Argument) -> Iterator[int]:
    value = given.get(name)
    for item in _items(given, name) if isinstance(value, list) else [value]:
        number = _whole(item)
        if number is None:
            raise given.error(name, f"{name} are whole numbers, not {spell(item)}")
        if not (argument.minimum or 0) <= number <= _most(argument):
            raise given.error(name, f"{name} are from {argument.minimum or 0:g} to {_most(argument):g}")
        yield number


def _texts(given: Fields, name: str) -> Iterator[str]:
    for item in _items(given, name):
        if not isinstance(item, str):
            raise given.error(name, f"{name} is a list of texts, not of {spell(item)}; quote it")
        yield item


def _mapping(given: Fields, name: str) -> dict[str, str]:
    value = given.get(name)
    if not isinstance(value, Mapping) or len(value) > MAX_ITEMS:
        raise given.error(name, f"{name} is a mapping of names to texts, not {spell(value)}")
    for key, text in value.items():
        if not re.fullmatch(ENVIRONMENT_NAME, key):
            raise given.error(name, f"{name}: a name is letters, digits and _, not {key[:80]!r}")
        if not isinstance(text, str):
            raise given.error(name, f"{name}: {key} is text, not {spell(text)}; quote it")
    return dict(value)


def _text(given: Fields, name: str, argument: Argument) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        # YAML reads 0123 as 83: what is typed has to be what is written.
        hint = "" if isinstance(value, Mapping | list) else "; quote it"
        raise given.error(name, f"{name} is text, not {spell(value)}{hint}")
    if argument.choices and value not in argument.choices:
        raise given.error(name, unknown(name, value, argument.choices))
    if argument.type in ("key", "chord"):
        if "{{" in value:
            raise given.error(name, "a key is written out: values are never substituted into keys")
        try:
            check_keys(argument, value)
        except PlaybookError as error:
            raise given.error(name, error.message) from error
    return value
