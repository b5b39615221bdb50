"""Absurd numbers, in YAML, JSON and plain data: one clear error with its place, and JSON's exponents are numbers."""

from __future__ import annotations

import json

import pytest

from reflexarc.errors import PlaybookError
from reflexarc.playbook.loader import load_data, load_text
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases
KEYS = ("timeout", "hold_for", "expect_timeout", "retries", "min_confidence")
ABSURD = ["1.0e+300", ".inf", "-.inf", ".nan", "-1", "9" * 30, "9" * 400]


def yaml(key: str, value: str) -> str:
    return (
        "name: x\nsteps:\n- name: a\n  wait_for: grub_menu\n  action: press_key\n  args: {key: a}\n"
        f"  {key}: {value}\n"
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [*ABSURD, "1e300"])
def test_in_yaml(key: str, value: str) -> None:
    with pytest.raises(PlaybookError) as caught:
        load_text(yaml(key, value), PHASES)
    error = caught.value
    assert (error.line, len(str(error)) < 200) == (7, True)
    assert "is between" in str(error) or "too large" in str(error) or "write it out" in str(error)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [1e300, float("inf"), float("nan"), -1, 10**30, 10**400, -(10**400)])
def test_in_plain_data(key: str, value: float) -> None:
    step = {"name": "a", "wait_for": "grub_menu", "action": "press_key", "args": {"key": "a"}, key: value}
    with pytest.raises(PlaybookError, match=f"{key} is between .* and .*, not ") as caught:
        load_data({"name": "x", "steps": [step]}, PHASES)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("spelt", ["1e3", "1E3", "1.0e3", "1e+3", "10.0e+2", "1000"])
def test_json_is_read_as_json(spelt: str) -> None:
    text = '{"name": "x", "steps": [{"name": "a", "wait_for": "grub_menu", "timeout": 1000}]}'
    text = text.replace("1000", spelt)
    assert load_text(text, PHASES) == load_data(json.loads(text), PHASES)
    assert load_text(text, PHASES).steps[0].timeout == 1000.0


def test_what_looks_like_a_number_in_yaml_stays_the_text_that_it_is() -> None:
    loaded = load_text("name: x\nvars: {serial: 12e4}\nsteps: [{name: a, wait_for: grub_menu}]\n", PHASES)
    assert loaded.variables["serial"].default == "12e4"
    quoted = '{"name": "x", "vars": {"serial": "12e4"}, "steps": [{"name": "a", "wait_for": "grub_menu"}]}'
    assert load_text(quoted, PHASES).variables["serial"].default == "12e4"
