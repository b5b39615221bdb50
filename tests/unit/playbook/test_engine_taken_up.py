"""The engine by itself: the last look before an act, and runs that another process takes up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.playbook.states import PHASES, PRESS, RESET, observe, seen, start

from reflexarc.playbook import engine
from reflexarc.playbook.events import (
    Acted,
    Doubted,
    Granted,
    Intended,
    Looked,
    Observed,
    Resumed,
    Started,
    Verified,
)
from reflexarc.playbook.state import Reason, RunState, Stage

AUTHORIZED = {"authorize": {"destructive": True, "ops": ["power.reset"]}}


def about_to_reset(**more: object) -> RunState:
    """The intent of a reset at a boot menu is written."""
    state = start({"wait_for": "grub_menu", **RESET, **more}, **AUTHORIZED)
    state = engine.advance(state, Granted(0.5, ("power.reset",), "somebody"))
    state = observe(state, "grub_menu", 1.0)
    state = engine.advance(state, Verified(1.1, seen("grub_menu", 1.1)))
    state = engine.advance(state, Intended(1.2))
    assert (state.stage, sum(state.grants.values())) == (Stage.ACTING, 0)
    return state


def test_a_last_look_that_sees_the_same_changes_nothing() -> None:
    state = about_to_reset()
    assert engine.advance(state, Verified(1.3, seen("grub_menu", 1.3))) == state


@pytest.mark.parametrize(
    "look",
    [
        Verified(1.3, seen("login_prompt", 1.3)),
        Verified(1.3, seen("grub_menu", 1.1)),
        Verified(4.0, seen("grub_menu", 1.3)),
    ],
    ids=["another phase", "from before the intent", "too old"],
)
def test_a_last_look_that_does_not_confirm_withholds_the_act(look: Verified) -> None:
    state = engine.advance(about_to_reset(), look)
    assert state.escalation is not None
    assert (state.stage, state.escalation.reason) == (Stage.HELD, Reason.PRECONDITION_MISMATCH)
    assert sum(state.grants.values()) == 1
    assert engine.advance(state, Acted(1.4, "delivered")) == state


def test_a_grant_comes_with_the_start() -> None:
    playbook = {"name": "test", "steps": [{"name": "first", **RESET}], **AUTHORIZED}
    event = Started(0.0, "run", "lab1", playbook, PHASES)
    assert engine.start(event).stage is Stage.HELD
    assert engine.start(replace(event, grant=("power.reset",), by="somebody")).stage is Stage.VERIFYING


def test_a_doubted_run_has_no_grant_left() -> None:
    state = start({"wait_for": "grub_menu", **RESET}, **AUTHORIZED)
    state = engine.advance(state, Granted(0.5, ("power.reset",), "somebody"))
    assert engine.advance(state, Doubted(1.0, "the end is damaged")).grants == {}


def pressed(*, expect: str | None = None) -> RunState:
    """Enter was pressed at a boot menu, and the next step awaits a boot menu again."""
    more = {} if expect is None else {"expect": expect}
    state = start({"wait_for": "grub_menu", **PRESS, **more}, {"wait_for": "grub_menu", **PRESS})
    state = engine.advance(state, Observed(1.0, seen("grub_menu", 1.0, text="first")))
    return engine.advance(state, Intended(1.1))


def test_an_answer_while_the_key_is_down_counts() -> None:
    state = engine.advance(pressed(), Acted(1.2, "delivered", pressed_at=1.12))
    assert state.stage is Stage.WAITING
    assert observe(state, "grub_menu", 1.3, changed_at=1.11).stage is Stage.WAITING
    assert observe(state, "grub_menu", 1.3, changed_at=1.15).stage is Stage.FIRING


@pytest.mark.parametrize(("shows", "stage"), [("first", Stage.WAITING), ("second", Stage.FIRING)])
def test_whoever_takes_a_run_up_tells_by_the_text_whether_the_screen_changed(
    shows: str, stage: Stage
) -> None:
    state = engine.advance(pressed(), Acted(1.2, "delivered", pressed_at=1.12))
    state = engine.advance(state, Resumed(5.0))
    now = seen("grub_menu", 5.1, changed_at=4.9, text=shows)
    assert engine.advance(state, Observed(5.1, now)).stage is stage


@pytest.mark.parametrize(("shows", "index"), [("first", 0), ("second", 1)])
def test_a_key_in_doubt_was_pressed_where_the_text_changed(shows: str, index: int) -> None:
    state = engine.advance(pressed(expect="grub_menu"), Resumed(5.0))
    now = seen("grub_menu", 5.1, changed_at=4.9, text=shows)
    state = engine.advance(state, Looked(5.1, now))
    assert engine.advance(state, Observed(5.3, replace(now, at=5.2))).index == index


def test_another_text_is_no_proof_of_a_destructive_act() -> None:
    state = engine.advance(about_to_reset(expect="grub_menu", expect_timeout=3), Resumed(5.0))
    now = seen("grub_menu", 5.1, changed_at=4.9, text="drawn further")
    state = engine.advance(state, Looked(5.1, now))
    assert engine.advance(state, Observed(5.3, replace(now, at=5.2))).stage is Stage.EXPECTING
    asked = engine.advance(state, Observed(9.0, replace(now, at=8.9)))
    assert asked.escalation is not None
    assert asked.escalation.reason is Reason.EXPECTATION_FAILED


@pytest.mark.parametrize(("before", "complete", "stage"), [
    ("shell_prompt", True, Stage.FIRING),
    ("shell_prompt", False, Stage.WAITING),
    ("unknown", True, Stage.WAITING),
])  # fmt: skip
def test_another_phase_is_proof_of_a_destructive_act(before: str, complete: bool, stage: Stage) -> None:
    """What the act led to is no news to the next step, which would else await a change that has been."""
    reset = {**RESET, "expect": "grub_menu"}
    state = start({"wait_for": "shell_prompt", **reset}, {"wait_for": "grub_menu", **PRESS}, **AUTHORIZED)
    shown = replace(seen(before, 1.0, changed_at=0.9), complete=complete)
    state = replace(state, seen=shown, stage=Stage.ACTING)
    state = engine.advance(state, Resumed(5.0))
    now = replace(seen("grub_menu", 5.1, changed_at=4.9), complete=True)
    state = engine.advance(state, Looked(5.1, now))
    state = engine.advance(state, Observed(5.3, replace(now, at=5.2)))
    assert state.index == 1
    assert engine.advance(state, Observed(5.5, replace(now, at=5.4))).stage is stage
