"""The format as a JSON Schema of draft 2020-12, for editors; made of the tables that the loader reads.

It accepts what the loader accepts, save for what a schema can't say: see `docs/playbooks.md`.
Source: JSON Schema, core and validation, draft 2020-12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from reflexarc.machine.policy import is_destructive
from reflexarc.observation import UNKNOWN, Phases
from reflexarc.patterns import MAX_PATTERN
from reflexarc.playbook import format as tables
from reflexarc.playbook import meanings
from reflexarc.playbook.actions import ACTIONS, Action, Argument
from reflexarc.playbook.argument_loader import ENVIRONMENT_NAME, MAX_COORDINATE, MAX_ITEMS
from reflexarc.playbook.element_loader import MAX_SELECTOR_TEXT, REF
from reflexarc.playbook.format import Key
from reflexarc.playbook.spelling import END, chord_pattern, key_pattern, power_pattern
from reflexarc.playbook.template import TEMPLATE

Schema: TypeAlias = dict[str, object]

_GIVEN: Schema = {"not": {"type": "null"}}
_NULL: Schema = {"type": "null"}


def schema(phases: Phases) -> Schema:
    """The schema of a playbook, with the phases that are known by name."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "reflexarc playbook",
        **_mapping(tables.PLAYBOOK, "A playbook of reflexarc."),
        "$defs": _definitions(phases),
    }


def _definitions(phases: Phases) -> Schema:
    known = {"enum": [name for name in phases if name != UNKNOWN]}
    return {
        "phase": {**known, "description": "A phase; `reflexarc phases list` shows them all."},
        "capability": {"enum": list(tables.CAPABILITIES)},
        "operation": {"enum": sorted(tables.OPERATION_NAMES)},
        "scalar": {"type": ["string", "number", "boolean"]},
        "template": {"type": ["string", "number", "boolean"], "pattern": TEMPLATE},
        "pattern": {"type": "string", "format": "regex", "maxLength": MAX_PATTERN},
        "key": {"type": "string", "pattern": key_pattern()},
        "chord": {"type": "string", "pattern": chord_pattern()},
        "power": {"type": "string", "pattern": power_pattern()},
        "region": _mapping(tables.REGION, "A part of the screen."),
        "element": _element(),
        "defaults": _mapping(tables.DEFAULTS, "What holds for every step."),
        "authorize": _mapping(tables.AUTHORIZE, "What the playbook asks for."),
        "variable": _variable(),
        "condition": _condition(),
        **{f"condition_{kind}": _kind(kind, keys) for kind, keys in tables.CONDITIONS.items()},
        "step": _step(),
        "include": _mapping(tables.INCLUDE, "The steps of another playbook."),
        "on_failure": _mapping(tables.ON_FAILURE, "What a run that fails does before it ends."),
        **{f"args_{action.name}": _arguments(action) for action in ACTIONS.values()},
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _mapping(keys: Mapping[str, Key], description: str) -> Schema:
    """A mapping with these keys and no others; null is the same as absent, where a key isn't required."""
    needed = [name for name, key in keys.items() if key.required]
    return {
        "description": description,
        "type": "object",
        "properties": {name: _value(key) for name, key in keys.items()},
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def _value(key: Key) -> Schema:
    inner = _TYPES[key.type](key)
    if not key.required:
        inner = {"anyOf": [inner, _NULL]}
    return {"description": key.meaning, **inner}


def _number(kind: str, minimum: float | None, maximum: float | None) -> Schema:
    return {
        "type": kind,
        "minimum": 0.0 if minimum is None else minimum,
        "maximum": 1e6 if maximum is None else maximum,
    }


def _places(count: int) -> Schema:
    """A list of so many whole numbers."""
    item = {"type": "integer", "minimum": -tables.MAX_PLACE, "maximum": tables.MAX_PLACE}
    return {"type": "array", "items": item, "minItems": count, "maxItems": count}


def _one_or_list(item: Schema, **more: object) -> Schema:
    return {"anyOf": [item, {"type": "array", "items": item, **more}]}


_TEMPLATE_TEXT: Schema = {
    "type": "string",
    "pattern": TEMPLATE,
    "minLength": 1,
    "maxLength": MAX_SELECTOR_TEXT,
}
_REF: Schema = {"type": "string", "pattern": REF + END}
_TYPES: Mapping[str, Callable[[Key], Schema]] = {
    "name": lambda key: {"type": "string", "pattern": r"\S"},
    "text": lambda key: {"type": "string"},
    "word": lambda key: {"type": "string", "pattern": f"^{tables.WORD}{END}"},
    "file": lambda key: {"type": "string", "minLength": 1},
    "state": lambda key: {"type": "string", "pattern": r"^(?![\s\S]*\{\{)[\s\S]*\S"},
    "on_failure": lambda key: _ref("on_failure"),
    "flag": lambda key: {"type": "boolean"},
    "number": lambda key: _number("number", key.minimum, key.maximum),
    "integer": lambda key: _number("integer", key.minimum, key.maximum),
    "choice": lambda key: {"enum": list(key.choices)},
    "version": lambda key: {"const": 1},
    "scalar": lambda key: _ref("template" if key.required else "scalar"),
    "scalars": lambda key: {"type": "array", "items": _ref("template")},
    "span": lambda key: _places(2),
    "rectangle": lambda key: _places(4),
    "phases": lambda key: _one_or_list(_ref("phase"), **({"minItems": 1} if key.required else {})),
    "capabilities": lambda key: _one_or_list(_ref("capability")),
    "operations": lambda key: _one_or_list(_ref("operation")),
    "pattern": lambda key: _ref("pattern"),
    "region": lambda key: _ref("region"),
    "element": lambda key: _ref("element"),
    "template": lambda key: _TEMPLATE_TEXT,
    "condition": lambda key: _ref("condition"),
    "conditions": lambda key: {"type": "array", "items": _ref("condition"), "minItems": 1},
    "action": lambda key: {
        "anyOf": [{"const": name, "description": meanings.of_action(action)} for name, action in ACTIONS.items()]
    },
    "arguments": lambda key: {"type": "object"},
    "defaults": lambda key: _ref("defaults"),
    "authorize": lambda key: _ref("authorize"),
    "variables": lambda key: {"type": "object", "additionalProperties": _ref("variable")},
    "steps": lambda key: {
        "type": "array",
        "items": {"anyOf": [_ref("step"), _ref("include")]},
        "minItems": 1,
        "maxItems": tables.MAX_STEPS,
    },
}  # fmt: skip


def _variable() -> Schema:
    """A value alone, or a mapping; a secret has no default."""
    table = _mapping(tables.VARIABLE, "A variable.")
    is_secret = {"properties": {"secret": {"const": True}}, "required": ["secret"]}
    table |= {"if": is_secret, "then": {"properties": {"default": _NULL}}}
    return {"anyOf": [_ref("scalar"), _NULL, table]}


def _element() -> Schema:
    """Which element is meant; something of what it says has to be known."""
    made = _mapping(tables.ELEMENT, "Which element of the accessibility tree.")
    return {**made, "anyOf": [_has(name) for name in tables.ELEMENT_TEXTS]}


def _condition() -> Schema:
    kinds = [_ref(f"condition_{kind}") for kind in tables.CONDITIONS]
    return {
        "description": "A phase, a list (any of), or a mapping with one kind of condition.",
        "anyOf": [_ref("phase"), {"type": "array", "items": _ref("condition"), "minItems": 1}, *kinds],
    }


def _kind(kind: str, keys: Mapping[str, Key]) -> Schema:
    made = _mapping(keys, keys[kind].meaning)
    if kind == "value":
        made["oneOf"] = [_has(name) for name in tables.COMPARISONS]
        equals = {"anyOf": [_ref("template"), _NULL], "description": keys["equals"].meaning}
        made["properties"] = {**_properties(made), "equals": equals}
    return made


def _properties(made: Schema) -> Mapping[str, object]:
    properties = made["properties"]
    assert isinstance(properties, dict)
    return properties


def _has(name: str) -> Schema:
    """The key is there and not null."""
    return {"properties": {name: _GIVEN}, "required": [name]}


def _step() -> Schema:
    return {
        **_mapping(tables.STEP, "A step: what it awaits, and what it does then."),
        "anyOf": [_has("action"), _has("wait_for")],
        "allOf": [
            {"if": _has("action"), "else": _only_waits()},
            # A value can't change by itself.
            {"properties": {"expect": {"not": {"type": "object", "required": ["value"]}}}},
            *(_when(name, _acts(action)) for name, action in ACTIONS.items()),
            *(_when(name, *_power(action, pressed)) for name, action, pressed in _pressing()),
        ],
    }


def _only_waits() -> Schema:
    return {
        "properties": {
            "args": {"anyOf": [_NULL, {"type": "object", "maxProperties": 0}]},
            "destructive": {"enum": [False, None]},
            "expect": _NULL,
        }
    }


def _when(name: str, then: Schema, also: Schema | None = None) -> Schema:
    """What holds for the steps with the action, and of those only for the ones that `also` fits."""
    named: Schema = {"properties": {"action": {"const": name}}, "required": ["action"]}
    return {"if": {"allOf": [named, also]} if also else named, "then": then}


def _acts(action: Action) -> Schema:
    arguments = _ref(f"args_{action.name}")
    needed = any(argument.required for argument in action.arguments.values())
    needed = needed or bool(action.selects) or any(() not in ways for ways in action.one_of)
    then: Schema = {"properties": {"args": arguments if needed else {"anyOf": [arguments, _NULL]}}}
    if needed:
        then["required"] = ["args"]
    if action.operation is not None and is_destructive(action.operation):
        then = {"allOf": [then, _must_be_destructive()]}
    return then


def _must_be_destructive() -> Schema:
    return {"properties": {"destructive": {"const": True}}, "required": ["destructive"]}


def _pressing() -> list[tuple[str, Action, str]]:
    """The actions that press keys, with the name of the argument that says which."""
    return [
        (name, action, pressed)
        for name, action in ACTIONS.items()
        if action.operation == "keyboard.press"
        for pressed, argument in action.arguments.items()
        if argument.type in ("key", "chord")
    ]


def _power(action: Action, name: str) -> tuple[Schema, Schema]:
    """Of keys that are a power operation: what must hold, and which they are."""
    are: Schema = {
        "properties": {"args": {"type": "object", "properties": {name: _ref("power")}, "required": [name]}},
        "required": ["args"],
    }
    once: Schema = {"properties": {"args": {"properties": {"times": {"enum": [1, None]}}}}}
    repeats = action.name in tables.REPEATING
    return {"not": {}} if repeats else {"allOf": [_must_be_destructive(), once]}, are


def _arguments(action: Action) -> Schema:
    needed = [name for name, argument in action.arguments.items() if argument.required]
    return {
        "description": meanings.of_action(action),
        "type": "object",
        "properties": {name: _argument(name, argument) for name, argument in action.arguments.items()},
        **({"required": needed} if needed else {}),
        **({"allOf": [_one_of(ways) for ways in action.one_of]} if action.one_of else {}),
        **(_selecting(action.selects) if action.selects else {}),
        "additionalProperties": False,
    }


def _selecting(selects: Sequence[str]) -> Schema:
    """An element is told by at least one text, or else by a reference alone."""
    texts = [name for name in selects if name in tables.ELEMENT_TEXTS]
    by_texts: Schema = {"anyOf": [_has(name) for name in texts], "properties": {"ref": _NULL}}
    return {
        "anyOf": [by_texts, {**_has("ref"), "properties": {"ref": _GIVEN, **dict.fromkeys(selects, _NULL)}}]
    }


def _one_of(alternatives: Sequence[Sequence[str]]) -> Schema:
    """Exactly one of the alternatives is given, with all its arguments."""
    names = list(dict.fromkeys(name for alternative in alternatives for name in alternative))
    return {
        "anyOf": [
            {
                "properties": {name: _GIVEN if name in given else _NULL for name in names},
                "required": list(given),
            }
            for given in alternatives
        ]
    }


def _argument(name: str, argument: Argument) -> Schema:
    described: Schema = {"description": meanings.of_argument(name, argument)}
    inner: Schema = {"enum": list(argument.choices)}
    if not argument.choices:
        inner = _ARGUMENT_TYPES[argument.type](argument)
    if not argument.required:
        inner = {"anyOf": [inner, _NULL]}
    return {**described, **inner}


_TEMPLATE: Schema = {"type": "string", "pattern": TEMPLATE}
_ARGUMENT_TYPES: Mapping[str, Callable[[Argument], Schema]] = {
    "string": lambda argument: _TEMPLATE,
    "literal": lambda argument: {"type": "string"},
    "path": lambda argument: _TEMPLATE,
    "texts": lambda argument: {"type": "array", "items": _TEMPLATE, "minItems": 1, "maxItems": MAX_ITEMS},
    "mapping": lambda argument: {
        "type": "object",
        "propertyNames": {"pattern": f"^{ENVIRONMENT_NAME}{END}"},
        "additionalProperties": _TEMPLATE,
        "maxProperties": MAX_ITEMS,
    },
    "integer": lambda argument: _number("integer", argument.minimum, argument.maximum),
    "integers": lambda argument: _one_or_list(
        _number("integer", argument.minimum, argument.maximum), minItems=1, maxItems=MAX_ITEMS
    ),
    "number": lambda argument: _number("number", argument.minimum, argument.maximum),
    "element": lambda argument: _ref("element"),
    "element_text": lambda argument: _TEMPLATE_TEXT,
    "ref": lambda argument: _REF,
    "value": lambda argument: {"anyOf": [_TEMPLATE, {"type": ["number", "boolean"]}]},
    "coordinate": lambda argument: {
        "anyOf": [_number("integer", 0, MAX_COORDINATE - 1), _number("number", 0, 1)]
    },
    "boolean": lambda argument: {"type": "boolean"},
    "condition": lambda argument: _ref("condition"),
    "pattern": lambda argument: _ref("pattern"),
    "key": lambda argument: _ref("key"),
    "chord": lambda argument: _ref("chord"),
}  # fmt: skip
