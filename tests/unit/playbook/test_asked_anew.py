"""A held run that goes on at another step, is taught an alarm, or finds another machine in place of its own."""

from __future__ import annotations

import pytest
from tests.unit.playbook.states import PRESS, observe, start

from reflexarc.playbook import engine
from reflexarc.playbook.events import Froze, Lesson, Lost, Replied, Resumed
from reflexarc.playbook.state import FreezeState, Outcome, Reason, RunState, Stage

STEPS = ({"wait_for": "grub_menu", **PRESS}, {"wait_for": "login_prompt"}, {"wait_for": "shell_prompt"})


def held(**top: object) -> RunState:
    return engine.advance(start(*STEPS, **top), Lost(1.0, "gone"))


@pytest.mark.parametrize(("resume_at", "index"), [("step 1", 1), (2, 2), (0, 0), ("step 0", 0)])
def test_an_amend_without_a_playbook_goes_on_elsewhere_in_the_same(resume_at: str | int, index: int) -> None:
    before = held()
    state = engine.advance(before, Replied(2.0, 1, "amend", resume_at=resume_at))
    assert (state.stage, state.index, state.playbook) == (Stage.WAITING, index, before.playbook)
    assert state.variables == before.variables


def test_the_last_step_can_be_gone_to_and_the_run_ends_by_it() -> None:
    state = engine.advance(held(), Replied(2.0, 1, "amend", resume_at=2))
    assert observe(state, "shell_prompt", 3.0).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("phase", ["crash_screen", "login_prompt", "new_phase"])
def test_an_alarm_that_is_taught_is_warned_of(phase: str) -> None:
    state = engine.advance(held(), Replied(2.0, 1, "teach", lesson=Lesson(phase, "x")))
    assert [warning.split()[0] for warning in state.warnings] == [phase] * (phase == "crash_screen")


def test_a_phase_that_the_playbook_makes_an_alarm_is_warned_of_too() -> None:
    state = engine.advance(
        held(alarm=["shell_prompt"]), Replied(2.0, 1, "teach", lesson=Lesson("shell_prompt", "x"))
    )
    assert len(state.warnings) == 1
    state = engine.advance(held(alarm=[]), Replied(2.0, 1, "teach", lesson=Lesson("crash_screen", "x")))
    assert state.warnings == ()


def test_another_machine_in_its_place_is_asked_about_though_the_run_is_held() -> None:
    before = engine.advance(held(hold="freeze"), Froze(1.5))
    assert before.is_frozen
    taken_up = engine.advance(before, Resumed(2.0))
    assert engine.advance(taken_up, Lost(3.0, "can't be reached")) == taken_up
    state = engine.advance(taken_up, Lost(3.0, "another one", gone=True))
    assert state.escalation is not None
    assert (state.stage, state.escalation.id, state.escalation.reason, state.escalation.detail) == (
        Stage.HELD, 2, Reason.CONNECTION_LOST, "another one",
    )  # fmt: skip
    assert state.freeze is FreezeState.NONE
    stale = Replied(4.0, 1, "resume")
    assert engine.advance(state, stale) == state
    assert engine.advance(state, Replied(4.0, 2, "resume")).stage is Stage.WAITING


def test_another_machine_is_asked_about_once_too_often_too() -> None:
    state = held()
    for number in range(40):
        state = engine.advance(state, Lost(3.0 + number, "another one", gone=True))
    assert (state.outcome, state.escalations) == (Outcome.FAILED, 20)
