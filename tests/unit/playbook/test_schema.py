"""The published schema accepts what the loader accepts, on playbooks made from it and on spoilt ones."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from PIL import Image
from tests.played import PLAYBOOK as PLAYED

from reflexarc.demo.machine import PLAYBOOKS
from reflexarc.errors import PlaybookError
from reflexarc.machine.keys import KEYS, chord, spellings
from reflexarc.machine.policy import chord_operation, is_destructive
from reflexarc.playbook import format as tables
from reflexarc.playbook.actions import ACTIONS
from reflexarc.playbook.document import parse
from reflexarc.playbook.element_loader import REF
from reflexarc.playbook.loader import load_data, load_file
from reflexarc.playbook.schema import schema
from reflexarc.playbook.spelling import END, chord_pattern, power_pattern
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases
SCHEMA = json.loads(json.dumps(schema(PHASES)))
VALIDATOR = Draft202012Validator(SCHEMA)
DEFINITIONS = SCHEMA["$defs"]
STEP_VALIDATOR = Draft202012Validator({**DEFINITIONS["step"], "$defs": DEFINITIONS})


def _dot() -> str:
    """A picture of 16 by 16 pixels, as PNG in base64."""
    file = BytesIO()
    Image.effect_noise((16, 16), 90).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


DOT = _dot()
WAITS: dict[str, Any] = {"name": "a", "wait_for": "grub_menu"}

# What a schema can't say, as the loader says it. `docs/playbooks.md` lists the same.
BEYOND = (
    r"step \d+ has the name .* already$",
    r"is a variable already$",
    r"a condition can't look at the secret",
    r"not a regular expression|repetition inside a repetition",
    r"names a key twice",
    r"steps are included by playbooks in files only",
    r"came from the machine: it names no file",
    r": the needle |does not fit into its region|image stands beside",
)

EXAMPLES: Mapping[str, list[Any]] = {
    "key": ["Enter", "esc", "PAGE down", "page-down", "-", " ", "Del", "power", "7"],
    "chord": [
        "ctrl+alt+F2",
        "Alt_R + print+o",
        "ctrl+alt+del",
        "control_r+option+kp-dot",
        "a",
        "shift+ ",
        "a+A",
    ],
    "template": ["x", "{{ disk }}", "a {{ r.phase }} {b}", "", 3, True, 0.5],
    "condition_needle": [
        {"needle": "dot.png", "image": DOT},
        {"needle": "dot.png", "image": DOT, "region": [0, -9, 8.0, 8], "threshold": 0.5},
        {"needle": "dot.png", "image": DOT, "region": [0, 0, 1, 1]},
        {"needle": "dot.png", "image": "?"},
        {"needle": "dot.png"},
    ],
    "pattern": ["a+", "(", "^(a*)*$", "", "x" * 500],
}
STRINGS: Mapping[str, list[str]] = {
    r"\S": ["menu", " a "],
    "TEMPLATE": ["say {{ disk }}", "plain", "a\n"],
    REF + END: ["{{ r2.ref }}"],
}
ODD: list[Any] = [
    None, True, False, 0, 1, 1.0, 1.5, -1, 10**9, "", " ", "x", "x\n", "grub_menu", "unknown", "power.*", "*", "p*",
    "ctrl+alt+delete", "Enter", "ctrl+", "+", "{{ a b }}", "{{{ a }}", "{{ a }}}", "}}", [], {}, [None], [1, 2], [[]],
    ["grub_menu"], {"text": "x"}, {"text": None}, {"value": "a", "equals": 1}, {"value": 1, "in": []},
    {"value": "a", "equals": 1, "matches": None}, {"phase": []}, {"phase": "grub_menu", "text": "a"}, "x" * 501,
    {"a": "b"}, {"a": 1}, {"a": "{{ b c }}"}, ["a", "{{ x }}"], ["{{ a b }}"], [1.0], [256], 2.0, 40_000, "cdrom",
    {"rollback": "a"}, {"rollback": "{{ a }}"}, {"rollback": " "}, {"include": "a.yaml"},
    {"not": None}, {"any": []}, {"settled": 0}, {"changed": False}, {"default": 1, "secret": True}, {"secret": True},
    "{{ r2.ref }}", {"role": "AXButton"}, {"name": ""}, {"name": "{{ a b }}"}, {"name": "a", "enabled": None},
    {"text": "a", "focused": 1}, {"showing": True}, {"element": {"name": "x"}},
    {"element": {"value": 1}}, {"element": {}},
]  # fmt: skip
# Arguments with which an action that requires them is fit.
LEAST: dict[str, Any] = {
    "key": "a", "chord": "a", "until": "grub_menu", "that": "grub_menu", "seconds": 1, "text": "x", "message": "m",
    "name": "clean", "source": "a.iso", "target": "/tmp/a", "command": "true", "device": "cdrom", "action": "AXPress",
    "value": "x",
}  # fmt: skip
NAMES = sorted(
    {*tables.PLAYBOOK, *tables.STEP, *tables.VARIABLE, *tables.CONDITIONS, *tables.COMPARISONS, "key", "ops"}
)
LIKELY = ("action", "wait_for")


class Maker:
    """Makes values that a schema describes, in the main: conditions that rule some out are left to the validator."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def make(self, part: Mapping[str, Any], depth: int = 0) -> Any:
        if "$ref" in part:
            name = part["$ref"].removeprefix("#/$defs/")
            return self._one(EXAMPLES[name]) if name in EXAMPLES else self.make(DEFINITIONS[name], depth + 1)
        if "anyOf" in part and "properties" not in part:
            options = [one for one in part["anyOf"] if one != {"type": "null"} or self._draw(st.booleans())]
            return self.make(self._one(options[: 1 if depth > 8 else None]), depth + 1)
        if "enum" in part or "const" in part:
            return self._one(part.get("enum", [part.get("const")]))
        return self._typed(part, depth)

    def _typed(self, part: Mapping[str, Any], depth: int) -> Any:
        kind = part["type"] if isinstance(part["type"], str) else self._one(part["type"])
        if kind == "object":
            return self._object(part, depth)
        if kind == "array":
            least = part.get("minItems", 0)
            count = self._draw(st.integers(least, max(least, 2 if depth < 8 else 1)))
            return [self.make(part["items"], depth + 1) for _ in range(count)]
        if kind in ("number", "integer"):
            low, high = part.get("minimum", -5), part.get("maximum", 5)
            return self._draw(
                st.integers(-(-low // 1), high // 1) if kind == "integer" else st.floats(low, high)
            )
        if kind == "string":
            pattern = part.get("pattern")
            known = STRINGS.get(pattern or "") or STRINGS.get(
                "TEMPLATE" if pattern and "{" in pattern[:12] else ""
            )
            return self._one(known or ["word", "r2"])
        return {"boolean": self._draw(st.booleans()), "null": None}[kind]

    def _object(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        needed = set(part.get("required", ()))
        properties = part.get("properties", {})
        made = {
            name: self.make(value, depth + 1)
            for name, value in properties.items()
            if name in needed or self._draw(st.integers(0, 9)) < (8 if name in LIKELY else 2)
        }
        if isinstance(part.get("additionalProperties"), Mapping):
            made |= {name: self.make(part["additionalProperties"], depth + 1) for name in ("disk", "user")}
        for rule in part.get("allOf", ()):
            if "if" in rule and self._holds(rule["if"], made):
                made |= self._follow(rule.get("then", {}), depth)
        return made

    def _follow(self, then: Mapping[str, Any], depth: int) -> dict[str, Any]:
        parts = [then, *then.get("allOf", ())]
        found = [item for part in parts for item in part.get("properties", {}).items()]
        return {name: self.make(value, depth + 1) for name, value in found if value.keys() != {"properties"}}

    def _holds(self, condition: Mapping[str, Any], made: dict[str, Any]) -> bool:
        return Draft202012Validator({**condition, "$defs": DEFINITIONS}).is_valid(made)

    def _one(self, items: list[Any]) -> Any:
        return self._draw(st.sampled_from(items))


@st.composite
def playbooks(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    made = Maker(draw).make(SCHEMA)
    assert isinstance(made, dict)
    made["steps"] = [{**mended(step), "name": f"step {number}"} for number, step in enumerate(made["steps"])]
    if not VALIDATOR.is_valid({"name": "x", "steps": [WAITS], "vars": made.get("vars")}):
        made["vars"] = {"disk": "vda"}
    return made


def mended(step: dict[str, Any]) -> dict[str, Any]:
    """The step, or the most of it that is one: what its parts rule out together is taken out."""
    changes: list[dict[str, Any]] = [
        {},
        {"destructive": True},
        {"destructive": None},
        {"expect": None, "destructive": None},
    ]
    for change in changes:
        if STEP_VALIDATOR.is_valid({**step, **change}):
            return {**step, **change}
    return WAITS


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container in the data with every key or index of it."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, value in items for place in [(data, key), *places(value)]]


@st.composite
def spoilt(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """A playbook in which a thing or two are put in the place of others, added or taken out."""
    data = deepcopy(draw(playbooks()))
    for _ in range(draw(st.integers(1, 2))):
        container, key = draw(st.sampled_from(places(data) or [(data, "name")]))
        match draw(st.sampled_from(["put", "put", "take out", "add"])):
            case "take out":
                del container[key]
            case "add" if isinstance(container, dict):
                container[draw(st.sampled_from(NAMES))] = deepcopy(draw(st.sampled_from(ODD)))
            case _:
                container[key] = deepcopy(draw(st.sampled_from(ODD)))
    return data


def refusal(data: Any) -> str | None:
    try:
        load_data(data, PHASES)
    except PlaybookError as error:
        return error.message
    return None


def agree(data: Any) -> None:
    refused = refusal(data)
    wrong = next(VALIDATOR.iter_errors(data), None)
    if wrong is None and refused is not None:
        assert any(re.search(words, refused) for words in BEYOND), refused
    else:
        assert (wrong is None) == (refused is None), (refused, wrong)


def test_it_is_a_schema_of_that_draft() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"].endswith("2020-12/schema")


@pytest.mark.timeout(900)
@given(playbooks())
def test_what_is_made_from_the_schema_loads(data: dict[str, Any]) -> None:
    agree(data)


@pytest.mark.timeout(900)
@given(spoilt())
def test_what_is_spoilt_is_refused_by_both_or_by_none(data: Any) -> None:
    agree(data)


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_every_key_with_an_odd_value(value: Any) -> None:
    pressed = {"name": "b", "action": "hotkey", "args": {"chord": "a"}, "destructive": True}
    for key in tables.PLAYBOOK:
        agree({"name": "x", "steps": [WAITS, pressed], key: value})
    for key in tables.STEP:
        agree({"name": "x", "steps": [{**WAITS, key: value}, {**pressed, key: value}]})


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_every_argument_with_an_odd_value(value: Any) -> None:
    for alias, action in ACTIONS.items():
        for name in action.arguments:
            given = {key: LEAST[key] for key, argument in action.arguments.items() if argument.required}
            for ways in action.one_of:
                way = next((way for way in ways if name in way), next(filter(None, ways)))
                given |= {part: 1 if part.endswith(("x", "y")) else "x" for part in way}
            if action.selects and name not in (*action.selects, "ref"):
                given |= {"role": "AXButton"}
            for destructive in (True, False):
                step = {
                    "name": "a",
                    "action": alias,
                    "args": {**given, name: value},
                    "destructive": destructive,
                }
                agree({"name": "x", "steps": [step]})


def test_the_playbooks_there_are_fit() -> None:
    found = list(PLAYBOOKS.glob("*.yaml"))
    assert found
    for path in found:
        VALIDATOR.validate(parse(Path(path).read_text()).data)
    VALIDATOR.validate(PLAYED)


def test_steps_may_be_included_in_files(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text("name: part\nsteps: [{name: a, wait_for: grub_menu}]")
    whole = tmp_path / "whole.yaml"
    for item in ("{include: part.yaml}", "{include: ''}", "{include: part.yaml, name: b}", "{include: 3}"):
        whole.write_text(f"name: whole\nsteps: [{item}]")
        fits = VALIDATOR.is_valid(parse(whole.read_text()).data)
        try:
            assert [step.name for step in load_file(whole, PHASES).steps] == ["a"]
        except PlaybookError:
            assert not fits
        else:
            assert fits


def test_every_key_action_and_argument_is_described() -> None:
    def undescribed(part: Any, where: str) -> list[str]:
        if not isinstance(part, dict):
            return []
        here = [
            f"{where}.{name}"
            for name, value in part.get("properties", {}).items()
            if part.get("additionalProperties") is False
            and not str(value.get("description", "")).endswith((".", ")"))
        ]
        return here + [bad for name, value in part.items() for bad in undescribed(value, f"{where}.{name}")]

    assert undescribed(SCHEMA, "") == []
    told = {
        one["const"]: one["description"]
        for one in DEFINITIONS["step"]["properties"]["action"]["anyOf"][0]["anyOf"]
    }
    assert set(told) == set(ACTIONS)
    assert "power.reset, destructive" in told["reset"]


@given(
    st.lists(
        st.sampled_from(sorted({*KEYS, *(w for ways in spellings().values() for w in ways)})),
        min_size=1,
        max_size=4,
    )
)
def test_a_chord_is_a_power_operation_where_the_pattern_fits(parts: list[str]) -> None:
    written = " + ".join(parts)
    assert re.search(chord_pattern(), written)
    try:
        keys = chord(written)
    except Exception as error:  # noqa: BLE001
        assert "twice" in str(error)  # noqa: PT017
        return
    operation = chord_operation(keys)
    destructive = operation is not None and is_destructive(operation)
    assert (re.search(power_pattern(), written) is not None) == destructive
