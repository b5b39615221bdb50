"""Conditions on elements: judged on what was looked for, when it was, and by whom; loading and describing them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.playbook.states import PHASES, start

from reflexarc.errors import PlaybookError
from reflexarc.machine.accessibility import Selector
from reflexarc.observation import Observation, Phases, Sighting
from reflexarc.playbook import engine
from reflexarc.playbook.conditions import (
    AnyOf,
    Condition,
    ElementIs,
    Not,
    Sight,
    capabilities_of,
    element_key,
    evaluate,
    is_evidential,
    spell,
)
from reflexarc.playbook.events import Granted, Intended, Observed, Verified
from reflexarc.playbook.loader import load_data
from reflexarc.playbook.state import Reason, RunState, Stage
from reflexarc.runs.codec import decode, encode
from reflexarc.runs.seeking import elements_sought

SAVE = ElementIs(Selector(name="Save"))
KEY = element_key(SAVE.selector)
THERE = Sighting(KEY, 5.0, 1, 7, "push button", "Save", "")


def observed(*elements: Sighting, at: float = 6.0, phase: str = "unknown") -> Observation:
    return Observation(phase, 0.0, "none", at, 1.0, origin="none", elements=elements)


def sight(*elements: Sighting, now: float = 6.0, since: float = 0.0, strict: bool = False) -> Sight:
    scope = {"file": "Save"}
    return Sight(observed(*elements), now, since, 0, 0.8, Phases(PHASES), scope, strict)


@pytest.mark.parametrize(
    ("condition", "seen", "holds", "unsure"),
    [
        (SAVE, sight(THERE), True, False),
        (SAVE, sight(replace(THERE, count=0)), False, False),
        (SAVE, sight(), False, True),
        (SAVE, sight(replace(THERE, key="another")), False, True),
        (SAVE, sight(THERE, since=5.0), False, True),
        (SAVE, sight(THERE, now=6.9, strict=True), True, False),
        (SAVE, sight(THERE, now=7.1, strict=True), False, True),
        (SAVE, sight(THERE, now=70.0), True, False),
        (Not(SAVE), sight(THERE), False, False),
        (Not(SAVE), sight(replace(THERE, count=0)), True, False),
        (Not(SAVE), sight(), False, True),
        (Not(SAVE), sight(replace(THERE, count=0), now=9.0, strict=True), False, True),
        (AnyOf((SAVE, ElementIs(Selector(name="x")))), sight(THERE), True, False),
        (ElementIs(Selector(name="{{ file }}")), sight(THERE), True, False),
    ],
)
def test_what_was_seen_of_it_decides(condition: Condition, seen: Sight, holds: bool, unsure: bool) -> None:
    verdict = evaluate(condition, seen)
    assert (verdict.holds, verdict.unsure) == (holds, unsure)
    assert verdict.evidential is not unsure


def test_it_is_complete_evidence_and_says_what_was_found() -> None:
    verdict = evaluate(SAVE, sight(THERE))
    assert (verdict.complete, verdict.match, verdict.element) == (True, "Save", THERE)


def test_a_name_without_value_is_an_error() -> None:
    with pytest.raises(PlaybookError, match="has no value"):
        evaluate(ElementIs(Selector(name="{{ nobody }}")), sight(THERE))


@pytest.mark.parametrize("key", ["role", "name", "value", "text"])
def test_a_text_that_the_machine_leaves_empty_is_an_error_and_does_not_fit_every_element(key: str) -> None:
    """What isn't asked for any more would be there whenever the rest is."""
    condition = ElementIs(Selector.of({"role": "AXButton", key: "{{ said.stdout }}"}))
    seen = replace(sight(THERE), scope={"said": {"stdout": ""}})
    with pytest.raises(PlaybookError, match="has no text once its names are looked up"):
        evaluate(condition, seen)
    assert spell(condition)


def test_it_looks_at_the_machine_and_is_spelt() -> None:
    assert is_evidential(Not(SAVE))
    assert list(capabilities_of(SAVE)) == ["accessibility"]
    whole = Selector("AXButton", "Save", "1", "av", enabled=True, focused=False, showing=False)
    assert spell(ElementIs(whole)) == (
        'the AXButton "Save" of value "1" with "av", enabled, not focused, showing or not'
    )
    assert spell(SAVE) == 'the element "Save"'


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ({}, "at least one of: role, name, value, text"),
        ({"enabled": True}, "at least one of"),
        ({"name": ""}, "1 to 1000 characters"),
        ({"name": "x" * 1001}, "1 to 1000 characters"),
        ({"name": 3}, "name is text"),
        ({"nmae": "x"}, "did you mean 'name'"),
        ({"name": "x", "showing": "yes"}, "true or false"),
        ("Save", "an element is a mapping"),
        ({"name": "{{ a b }}"}, "one dotted name"),
    ],
)
def test_what_a_condition_must_not_be(element: object, says: str) -> None:
    with pytest.raises(PlaybookError, match=says):
        load_data({"name": "x", "steps": [{"name": "a", "wait_for": {"element": element}}]}, Phases(PHASES))


def test_a_secret_is_not_looked_at() -> None:
    wait = {"name": "a", "wait_for": {"element": {"value": "{{ pw }}"}}}
    with pytest.raises(PlaybookError, match="can't look at the secret"):
        load_data({"name": "x", "vars": {"pw": {"secret": True}}, "steps": [wait]}, Phases(PHASES))


def test_a_name_that_nobody_declared_is_a_variable() -> None:
    wait = {"name": "a", "wait_for": {"element": {"name": "{{ title }}"}}}
    assert load_data({"name": "x", "steps": [wait]}, Phases(PHASES)).variables["title"].required


def test_what_a_step_speaks_of_is_sought_with_its_names_looked_up() -> None:
    state = start(
        {
            "wait_for": {"any": [{"element": {"name": "{{ file }}"}}, {"not": {"element": {"text": "b"}}}]},
            "action": "press_until",
            "args": {"key": "tab", "until": {"element": {"role": "c", "focused": True}}},
            "expect": {"element": {"name": "{{ later.name }}"}},
        }
    )
    state = replace(state, variables={"file": "Save"})
    assert {one.name or one.text or one.role for one in elements_sought(state).values()} == {"Save", "b", "c"}
    assert set(elements_sought(state)) == {element_key(one) for one in elements_sought(state).values()}


RESET = {"action": "reset", "destructive": True, "precondition": {"element": {"name": "Save"}}}


def granted_at(at: float) -> RunState:
    """A reset that a person granted, about to be verified."""
    steps = ({"wait_for": "login_prompt"}, RESET)
    state = start(*steps, authorize={"destructive": True, "ops": ["power.reset"]})
    state = engine.advance(state, Granted(0.5, ("power.reset",), "somebody"))
    seen = Observation("login_prompt", 1.0, "text", at, at, origin="text", complete=True)
    return engine.advance(state, Observed(at, seen))


def test_a_precondition_takes_what_was_found_after_the_decision_only() -> None:
    state = granted_at(10.0)
    assert state.stage is Stage.VERIFYING
    old = engine.advance(state, Verified(10.4, observed(replace(THERE, at=9.9), at=10.3)))
    assert old.stage is Stage.VERIFYING
    fresh = engine.advance(state, Verified(10.4, observed(replace(THERE, at=10.2), at=10.3)))
    assert fresh.stage is Stage.FIRING
    assert engine.advance(fresh, Intended(10.5)).stage is Stage.ACTING
    assert engine.advance(fresh, Intended(12.25)).stage is Stage.VERIFYING
    gone = engine.advance(state, Verified(10.4, observed(replace(THERE, at=10.2, count=0), at=10.3)))
    assert gone.escalation is not None
    assert gone.escalation.reason is Reason.PRECONDITION_MISMATCH


def test_the_journal_keeps_what_was_found() -> None:
    event = Observed(6.0, observed(THERE, replace(THERE, key="k", ref="e17")))
    assert decode(*encode(event)) == event


def test_a_grant_is_bound_to_the_element() -> None:
    state = granted_at(10.0)
    other = replace(state.step, precondition=ElementIs(Selector(name="Delete")))
    assert state.key_of(state.step) != state.key_of(other)
