"""What a run that fails does last, and what is done with the machine of a run that is held."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.playbook.seeing import observe, seen, start, verify

from reflexarc.playbook import engine, grants
from reflexarc.playbook.events import (
    Aborted,
    Acted,
    Freezing,
    Froze,
    Granted,
    Intended,
    Looked,
    Lost,
    Replied,
    Resumed,
    Thawed,
)
from reflexarc.playbook.state import FreezeState, Outcome, Reason, RunState, Stage

FAIL = {"action": "fail", "args": {"message": "no luck"}}
BACK: dict[str, Any] = {
    "on_failure": {"rollback": "clean"},
    "authorize": {"destructive": True, "ops": ["snapshot.restore"]},
}


def failed(*, grant: bool = True, **top: object) -> RunState:
    more: dict[str, Any] = {**BACK, **top}
    state = start(FAIL, {"action": "freeze"}, **more)
    if grant:
        state = engine.advance(state, Granted(0.0, ("snapshot.restore",), "somebody"))
    state = engine.advance(state, Intended(0.1))
    return engine.advance(state, Acted(0.2, "failed", "no luck", sent=False, fatal=True))


def restoring(state: RunState) -> RunState:
    state = verify(state, "crash_screen", 0.3)
    assert state.stage is Stage.FIRING
    return engine.advance(state, Intended(0.4))


def test_it_goes_back_and_has_failed() -> None:
    state = failed()
    assert (state.stage, state.step.operation) == (Stage.VERIFYING, "snapshot.restore")
    state = restoring(state)
    assert state.stage is Stage.ACTING
    state = engine.advance(state, Acted(0.5, "delivered"))
    assert (state.stage, state.outcome, state.reason) == (
        Stage.ENDED,
        Outcome.FAILED,
        "no luck; went back to clean",
    )
    assert state.step.name == "step 0"


@pytest.mark.parametrize(
    ("top", "grant", "says"),
    [
        ({}, False, "not granted"),
        ({"authorize": {"destructive": True, "ops": ["power.reset"]}}, True, "does not ask for"),
    ],
)
def test_without_authority_it_only_fails(top: dict[str, object], grant: bool, says: str) -> None:
    state = failed(grant=grant, **top)
    assert (state.stage, state.outcome) == (Stage.ENDED, Outcome.FAILED)
    assert state.reason.startswith("no luck; on_failure: back to clean: ")
    assert says in state.reason


def test_what_was_interrupted_is_never_done_again() -> None:
    state = engine.advance(restoring(failed()), Resumed(1.0))
    assert state.stage is Stage.IN_DOUBT
    state = engine.advance(state, Looked(1.1, seen("login_prompt", 1.1)))
    assert (state.stage, state.outcome) == (Stage.ENDED, Outcome.FAILED)
    assert "whether it happened can't be seen" in state.reason


def test_one_that_was_not_sent_yet_is_done_after_a_restart() -> None:
    state = engine.advance(failed(), Resumed(1.0))
    assert restoring_at(state, 1.1).stage is Stage.ACTING


def restoring_at(state: RunState, at: float) -> RunState:
    return engine.advance(verify(state, "crash_screen", at), Intended(at + 0.1))


@pytest.mark.parametrize("delivery", ["failed", "unknown"])
def test_one_that_the_device_refuses_or_that_is_lost_fails_without_asking(delivery: str) -> None:
    state = engine.advance(restoring(failed()), Acted(0.5, delivery, "there is no saved state 'clean'"))
    assert (state.stage, state.outcome, state.escalation) == (Stage.ENDED, Outcome.FAILED, None)
    assert "no saved state" in state.reason


def test_a_lost_machine_ends_it() -> None:
    state = engine.advance(failed(), Lost(0.5, "the device is gone"))
    assert (state.outcome, state.reason) == (
        Outcome.FAILED,
        "no luck; on_failure: back to clean: the device is gone",
    )


def test_an_aborted_run_goes_nowhere() -> None:
    assert engine.advance(start(FAIL, **BACK), Aborted(0.1, "enough", "me")).outcome is Outcome.ABORTED
    state = engine.advance(failed(), Aborted(0.5, "enough", "me"))
    assert (state.outcome, state.stage) == (Outcome.ABORTED, Stage.ENDED)


def test_a_grant_is_asked_for_it_and_spent_by_it() -> None:
    state = start(FAIL, **BACK)
    (request,) = grants.requests(state.playbook.ahead(0), {})
    assert (request.operation, request.arguments, request.unverified) == (
        "snapshot.restore",
        "name=clean",
        True,
    )
    assert set(restoring(failed()).grants.values()) == {0}


def test_a_grant_for_another_state_is_none_for_this_one() -> None:
    other = {**BACK, "on_failure": {"rollback": "other"}}
    state = engine.advance(
        start({"wait_for": "login_prompt"}, **BACK), Granted(0.0, ("snapshot.restore",), "somebody")
    )
    state = observe(state, "crash_screen", 0.1)
    assert state.escalation is not None
    amended = {"name": "test", "steps": [{"name": "step 0", **FAIL}], **other}
    state = engine.advance(state, Replied(0.2, 1, "amend", playbook=amended))
    state = engine.advance(engine.advance(state, Intended(0.3)), Acted(0.4, "failed", "no luck", fatal=True))
    assert (state.stage, "not granted" in state.reason) == (Stage.ENDED, True)


def held() -> RunState:
    return observe(
        start({"wait_for": "login_prompt"}, {"action": "unfreeze"}, hold="freeze"), "crash_screen", 1.0
    )


def test_a_hold_freezes_once_and_a_reply_thaws_first() -> None:
    state = held()
    assert engine.effect(state) == engine.Freeze()
    state = engine.advance(state, Freezing(1.1))
    assert engine.effect(state) == engine.Hold()
    state = engine.advance(state, Froze(1.2))
    assert (engine.effect(state), state.freeze) == (engine.Hold(), FreezeState.FROZEN)
    for kind in ("resume", "act"):
        steps = ({"name": "look", "action": "note", "args": {"text": "x"}},) if kind == "act" else ()
        going = engine.advance(state, Replied(2.0, 1, kind, steps=steps))
        assert engine.effect(going) == engine.Thaw()
        assert engine.effect(engine.advance(going, Thawed(2.1))) != engine.Thaw()


def test_a_process_that_died_while_freezing_leaves_a_run_that_thaws() -> None:
    state = engine.advance(engine.advance(held(), Freezing(1.1)), Resumed(5.0))
    assert (state.freeze, engine.effect(state)) == (FreezeState.FREEZING, engine.Hold())
    assert engine.effect(engine.advance(state, Replied(5.1, 1, "resume"))) == engine.Thaw()


def test_where_it_cannot_be_frozen_the_hold_is_passive_and_says_why() -> None:
    state = engine.advance(held(), Froze(1.2, "it is off"))
    assert (engine.effect(state), state.freeze_error) == (engine.Hold(), "it is off")
    state = engine.advance(state, Replied(2.0, 1, "resume"))
    assert engine.effect(state) == engine.Watch()
    again = observe(state, "crash_screen", 3.0)
    assert (again.escalation is not None, engine.effect(again)) == (True, engine.Freeze())


def test_a_passive_hold_freezes_nothing() -> None:
    state = observe(start({"wait_for": "login_prompt"}), "crash_screen", 1.0)
    assert (state.escalation is not None, engine.effect(state)) == (True, engine.Hold())
    assert state.escalation is not None
    assert state.escalation.reason is Reason.OFF_SCRIPT
