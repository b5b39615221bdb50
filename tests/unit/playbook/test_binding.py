"""What a grant is bound to: an act that differs in anything of it is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.playbook.test_properties import PHASES

from reflexarc.observation import Observation, Phases, ScreenText
from reflexarc.playbook import engine, grants
from reflexarc.playbook.events import Acted, Event, Granted, Intended, Observed, Replied, Started, Verified
from reflexarc.playbook.loader import load_data
from reflexarc.playbook.state import Reason, RunState, Stage

Data = dict[str, object]
ALL = ("power", "step")
VARIABLES: Mapping[str, object] = {"name": "root", "other": "root2"}

leaves: st.SearchStrategy[object] = st.sampled_from(
    [
        "login_prompt",
        "grub_menu",
        {"text": "a"},
        {"serial": "a"},
        {"text": "a", "highlighted": True},
        {"settled": 1},
    ]
)
conditions = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda c: {"not": c}, inner)
        | st.builds(lambda cs: {"any": cs}, st.lists(inner, min_size=1, max_size=2))
        | st.builds(lambda cs: {"all": cs}, st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=3,
)
acts = st.one_of(
    st.sampled_from(["reset", "hard_off", "hard_cycle"]).map(lambda name: {"action": name}),
    st.sampled_from([30, 60]).map(lambda t: {"action": "shutdown", "args": {"timeout": t}}),
    st.sampled_from(["ctrl+alt+delete", "ctrl_r+alt+delete", "alt+sysrq+b"]).map(
        lambda chord: {"action": "hotkey", "args": {"chord": chord}}
    ),
    st.sampled_from(
        ["root", "{{ name }}", "{{ other }}", "{{ name }}2", "{{ password }}", "root{{ password }}"]
    ).map(lambda text: {"action": "type_text", "args": {"text": text}}),
    conditions.map(lambda until: {"action": "press_until", "args": {"key": "down", "until": until}}),
)


@st.composite
def playbooks(draw: st.DrawFn) -> Data:
    step: Data = {"name": "act", "wait_for": "login_prompt", "timeout": 5, "destructive": True, **draw(acts)}
    if draw(st.booleans()):
        step["precondition"] = draw(conditions)
    if draw(st.integers(0, 2)) == 0:
        step["min_confidence"] = draw(st.sampled_from([0.0, 0.5, 0.8]))
    return {
        "name": "any",
        "vars": {"name": "root", "other": "root2", "password": {"secret": True}},
        "authorize": {"destructive": True, "ops": list(ALL)},
        "defaults": {"min_confidence": draw(st.sampled_from([0.0, 0.8, 0.9]))},
        "steps": [step],
    }


def only_step(playbook: Data) -> Data:
    (step,) = cast("list[Data]", playbook["steps"])
    return step


def seen(now: float, phase: str = "login_prompt", text: str = "a") -> Observation:
    return Observation(phase, 1.0, "text", now, now, origin="text", complete=True, screen=ScreenText((text,)))


def begun(playbook: Data, *granted: str, machine: str = "lab") -> RunState:
    secrets = {"password": "env:P"}
    start = Started(0.0, "run", machine, playbook, PHASES, variables=VARIABLES, secrets=secrets)
    events: list[Event] = [start, Granted(0.1, granted, "a person")] if granted else [start]
    return engine.fold(events)


def decided(state: RunState, at: float = 10.0) -> tuple[Stage, Reason | None]:
    state = engine.advance(state, Observed(at, seen(at)))
    return state.stage, state.escalation.reason if state.escalation else None


def means(playbook: Data) -> object:
    """Everything about the act that a grant is bound to, without the code that binds it."""
    loaded = load_data(playbook, Phases(PHASES))
    (step,) = loaded.steps
    confidence = step.min_confidence if step.min_confidence is not None else loaded.min_confidence
    values = {"{{ name }}": "root", "{{ other }}": "root2"}
    args = {
        name: value.replace("{{ name }}", "root").replace("{{ other }}", values["{{ other }}"])
        if isinstance(value, str)
        else value
        for name, value in step.args.items()
    }
    unbound = "{{ password }}" in str(step.args.get("text"))
    shown = step.args if unbound else args
    return step.action, shown, step.condition_args, step.precondition or step.wait_for, confidence


PASSES = (Stage.VERIFYING, None)
ASKS = (Stage.HELD, Reason.NEEDS_AUTHORIZATION)


@given(playbooks(), playbooks() | st.none())
def test_an_amended_act_passes_only_where_it_is_the_very_same(first: Data, second: Data | None) -> None:
    second = second or first
    state = begun(first, *ALL)
    assert decided(state) == PASSES
    held = engine.advance(state, Observed(6.0, seen(6.0, "grub_menu")))
    assert held.stage is Stage.HELD
    amended = engine.advance(held, Replied(7.0, 1, "amend", playbook=second))
    assert decided(amended) == (PASSES if means(first) == means(second) else ASKS)


@given(playbooks(), playbooks() | st.none())
def test_an_inline_act_passes_only_where_it_is_the_very_same(first: Data, second: Data | None) -> None:
    second = {**(second or first), "defaults": first["defaults"]}
    held = engine.advance(begun(first, *ALL), Observed(6.0, seen(6.0, "grub_menu")))
    step = only_step(second)
    acted = engine.advance(held, Replied(7.0, 1, "act", steps=({**step, "name": "inline"},)))
    assert acted.step.name == "inline"
    assert decided(acted) == (PASSES if means(first) == means(second) else ASKS)


@given(playbooks(), st.integers(1, 4), st.integers(1, 4))
def test_no_more_acts_than_were_granted(playbook: Data, there: int, added: int) -> None:
    step = only_step(playbook)
    assume("precondition" not in step)
    step = {**step, "wait_for": "login_prompt"}
    more = {**playbook, "steps": [{**step, "name": f"{i}"} for i in range(there + added)]}
    state = begun({**playbook, "steps": [{**step, "name": f"{i}"} for i in range(there)]}, *ALL)
    state = engine.advance(state, Observed(6.0, seen(6.0, "grub_menu")))
    state = engine.advance(state, Replied(7.0, 1, "amend", playbook=more, resume_at=0))
    now, fired = 10.0, 0
    while state.stage is not Stage.HELD:
        now += 1.0
        state = engine.advance(state, Observed(now, seen(now)))
        if state.stage is Stage.VERIFYING:
            for event in (Verified(now, seen(now)), Intended(now), Acted(now, "delivered")):
                state = engine.advance(state, event)
            fired += 1
    assert fired == there
    assert state.escalation is not None
    assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION


@given(playbooks())
def test_another_machine_is_another_act(playbook: Data) -> None:
    state = begun(playbook, *ALL)
    elsewhere = replace(begun(playbook, machine="lab2"), grants=state.grants)
    assert decided(elsewhere) == ASKS
    assert decided(replace(elsewhere, machine="lab")) == PASSES


@given(playbooks(), st.sampled_from(["alarm", "passing", "expect"]))
def test_what_alone_withholds_an_unverified_act_is_bound_too(playbook: Data, what: str) -> None:
    step = only_step(playbook)
    bare = {k: v for k, v in step.items() if k not in ("wait_for", "precondition")}
    first = {**playbook, "steps": [{"name": "look", "wait_for": "grub_menu"}, bare]}
    loose = {
        "alarm": {**first, "alarm": []},
        "passing": {**first, "steps": [first["steps"][0], {**bare, "passing": ["crash_screen"]}]},  # type: ignore[index]
        "expect": {**first, "steps": [first["steps"][0], {**bare, "expect": "crash_screen"}]},  # type: ignore[index]
    }[what]
    held = engine.advance(begun(first, *ALL), Observed(400.0, seen(400.0, "login_prompt")))
    assert held.stage is Stage.HELD
    for amended, expected in ((first, Stage.VERIFYING), (loose, Stage.HELD)):
        state = engine.advance(held, Replied(401.0, 1, "amend", playbook=amended, resume_at="act"))
        assert state.stage is expected


def test_a_value_from_the_screen_is_bound_as_it_is_when_it_fires() -> None:
    playbook: Data = {
        "name": "reads",
        "authorize": {"destructive": True, "ops": ["step"]},
        "steps": [
            {"name": "read", "wait_for": {"text": "a(.*)"}, "register": "found", "timeout": 100},
            {"name": "act", "action": "type_text", "args": {"text": "{{ found.match }}"}, "destructive": True,
             "wait_for": {"text": "a"}},
        ],
    }  # fmt: skip
    state = begun(playbook, "step")
    state = engine.advance(state, Observed(1.0, seen(1.0, text="abc")))
    state = engine.advance(state, Observed(2.0, seen(2.0, text="abc")))
    assert state.escalation is not None
    assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION
    granted = engine.advance(state, Replied(3.0, 1, "resume", grant=("step",)))
    assert engine.advance(granted, Observed(4.0, seen(4.0, text="abc"))).stage is Stage.VERIFYING
    again = {"name": "again", "wait_for": {"text": "x.*"}, "register": "found"}
    other = engine.advance(state, Replied(3.0, 1, "act", steps=(again,), grant=("step",)))
    other = engine.advance(other, Observed(4.0, seen(4.0, text="axyz")))
    assert other.registered["found"]["match"] == "xyz"  # type: ignore[index]
    assert decided(other, 5.0) == ASKS


RESETS: Data = {
    "name": "resets",
    "authorize": {"destructive": True, "ops": ["power.reset"]},
    "steps": [
        {"name": f"reset {n}", "wait_for": "login_prompt", "action": "reset", "destructive": True}
        for n in range(3)
    ],
}


class TestInAdvance:
    """Grants that come by their keys serve once."""

    def keys(self, state: RunState, most: int) -> Mapping[str, int]:
        return grants.granted_keys(state.playbook.steps, ["power.reset"], state.key_of, most=most)

    def test_as_many_as_asked_for(self) -> None:
        state = begun(RESETS)
        assert [sum(self.keys(state, most).values()) for most in (1, 2, 9)] == [1, 2, 3]

    def test_the_same_one_adds_nothing_the_second_time(self) -> None:
        state = begun(RESETS)
        (key,) = keys = self.keys(state, 1)
        for _ in range(2):
            state = engine.advance(state, Granted(1.0, ("power.reset",), "a person", "g1", keys))
        assert state.grants == {key: 1}
        state = engine.advance(state, Granted(1.0, ("power.reset",), "a person", "g2", keys))
        assert state.grants == {key: 2}

    def test_it_is_for_the_acts_as_they_stood(self) -> None:
        state = begun(RESETS)
        keys = self.keys(state, 1)
        first = RESETS["steps"][0]  # type: ignore[index]
        held = engine.advance(state, Observed(400.0, seen(400.0, "grub_menu")))
        amended = {**RESETS, "steps": [{**first, "precondition": ["login_prompt", "grub_menu"]}]}
        state = engine.advance(held, Granted(401.0, ("power.reset",), "a person", "g1", keys))
        state = engine.advance(state, Replied(402.0, 1, "amend", playbook=amended))
        assert decided(state, 410.0) == ASKS


@pytest.mark.parametrize("ops", [[], ["power"]])
def test_authorize_without_destructive_or_ops_authorises_nothing(ops: list[str]) -> None:
    step = {"name": "reset", "wait_for": "login_prompt", "action": "reset", "destructive": True}
    for asked in ({"ops": ops, "destructive": False}, {"destructive": True, "ops": []}, {"ops": ops}):
        assert decided(begun({"name": "x", "authorize": asked, "steps": [step]}, "power")) == ASKS
