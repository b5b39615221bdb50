"""The engine by itself: which evidence ends a wait, and which doesn't."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.playbook.states import PHASES, PRESS, after_reset, observe, said, seen, start

from reflexarc.playbook import engine, waiting
from reflexarc.playbook.events import (
    Acted,
    Intended,
    Observed,
    Started,
)
from reflexarc.playbook.state import Outcome, Reason, Stage


def test_complete_evidence_fires_at_once() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "grub_menu", 1.0)
    assert state.stage is Stage.FIRING
    assert engine.effect(state) == engine.Act(state.step)


def test_incomplete_evidence_has_to_hold() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "grub_menu", 1.0, complete=False)
    assert state.stage is Stage.WAITING
    assert waiting.next_deadline(state, None, 1.0) == pytest.approx(1.2)
    assert observe(state, "grub_menu", 1.1, changed_at=1.0, complete=False).stage is Stage.WAITING
    assert observe(state, "grub_menu", 1.2, changed_at=1.0, complete=False).stage is Stage.FIRING


def test_a_screen_that_is_still_being_drawn_does_not_count() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "grub_menu", 1.0, complete=False)
    state = observe(state, "grub_menu", 1.25, changed_at=1.15, complete=False)
    assert state.stage is Stage.WAITING
    assert observe(state, "grub_menu", 1.35, changed_at=1.15, complete=False).stage is Stage.FIRING
    assert observe(state, "grub_menu", 3.0, complete=False).stage is Stage.FIRING


def test_a_flash_of_a_phase_does_not_count() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "grub_menu", 1.0, complete=False)
    state = observe(state, "booting", 1.1)
    assert observe(state, "grub_menu", 1.25, complete=False).stage is Stage.WAITING


def test_a_parent_phase_accepts_its_children() -> None:
    state = observe(start({"wait_for": "installer_welcome", **PRESS}), "installer_language", 1.0)
    assert state.stage is Stage.FIRING


def test_low_confidence_does_not_match_and_asks_once_settled() -> None:
    state = start({"wait_for": "grub_menu", **PRESS})
    state = observe(state, "grub_menu", 1.0, confidence=0.5)
    assert state.stage is Stage.WAITING
    state = observe(state, "grub_menu", 11.1, changed_at=1.0, confidence=0.5)
    assert state.escalation is not None
    assert state.escalation.reason is Reason.LOW_CONFIDENCE


def test_an_alarm_ends_a_wait_at_once() -> None:
    state = observe(start({"wait_for": "login_prompt"}), "crash_screen", 2.0, text="Kernel panic")
    assert state.stage is Stage.HELD
    assert state.escalation is not None
    assert (state.escalation.reason, state.escalation.observed_phase) == (Reason.OFF_SCRIPT, "crash_screen")
    assert state.escalation.text == "Kernel panic"
    assert state.escalation.expected == ("login_prompt",)


def test_an_alarm_that_the_step_names_is_awaited() -> None:
    state = observe(start({"wait_for": ["login_prompt", "crash_screen"]}, PRESS), "crash_screen", 2.0)
    assert (state.index, state.stage) == (1, Stage.FIRING)


def test_off_script_needs_a_settled_screen() -> None:
    state = start({"wait_for": "login_prompt"})
    assert observe(state, "grub_edit", 9.9, changed_at=0.0).stage is Stage.WAITING
    held = observe(state, "grub_edit", 10.0, changed_at=0.0).escalation
    assert held is not None
    assert held.reason is Reason.OFF_SCRIPT


@pytest.mark.parametrize("phase", ["booting", "post_screen"])
def test_passing_phases_may_stay(phase: str) -> None:
    assert observe(start({"wait_for": "login_prompt"}), phase, 200.0, changed_at=0.0).stage is Stage.WAITING


def test_an_earlier_pure_wait_makes_its_phase_pass() -> None:
    state = observe(start({"wait_for": "grub_menu"}, {"wait_for": "login_prompt"}), "grub_menu", 1.0)
    assert observe(state, "grub_menu", 60.0, changed_at=1.0).stage is Stage.WAITING


@pytest.mark.parametrize(("policy", "stage"), [("escalate", Stage.HELD), ("wait", Stage.WAITING)])
def test_on_unknown(policy: str, stage: Stage) -> None:
    state = start({"wait_for": "login_prompt"}, on_unknown=policy, unknown_after=3)
    state = observe(state, "unknown", 4.0, changed_at=0.5, confidence=0.0, rung="none")
    assert state.stage is stage


def test_an_unknown_screen_that_keeps_changing_is_normal() -> None:
    state = observe(start({"wait_for": "login_prompt"}), "unknown", 100.0, confidence=0.0, rung="none")
    assert state.stage is Stage.WAITING


def test_the_timeout_is_the_phase_s_own_usual_maximum() -> None:
    state = start({"wait_for": "grub_menu"})
    assert observe(state, "booting", 59.9).stage is Stage.WAITING
    held = observe(state, "booting", 60.0).escalation
    assert held is not None
    assert held.reason is Reason.TIMEOUT


def test_evidence_from_before_the_action_does_not_count() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}, {"wait_for": "login_prompt"}), "grub_menu", 1.0)
    state = engine.advance(engine.advance(state, Intended(1.01)), Acted(1.1, "delivered"))
    stale = engine.advance(state, Observed(1.2, seen("login_prompt", 1.05)))
    assert (stale.index, stale.stage) == (1, Stage.WAITING)
    assert observe(state, "login_prompt", 1.2).stage is Stage.ENDED


def test_what_was_seen_before_an_action_counts_only_after_a_change() -> None:
    state = observe(
        start({"wait_for": "shell_prompt", **PRESS}, {"wait_for": "shell_prompt"}), "shell_prompt", 1.0
    )
    state = engine.advance(engine.advance(state, Intended(1.01)), Acted(1.1, "delivered"))
    assert observe(state, "shell_prompt", 1.2, changed_at=0.9).stage is Stage.WAITING
    assert observe(state, "shell_prompt", 1.3, changed_at=1.2).stage is Stage.ENDED


def test_the_panic_that_a_reset_ends_is_no_alarm_while_it_goes() -> None:
    state = observe(after_reset(), "crash_screen", 1.31, text="half of it is still there")
    state = observe(state, "unknown", 1.32, rung="none", confidence=0.0)
    state = observe(state, "crash_screen", 1.33)
    assert (state.index, state.stage) == (1, Stage.WAITING)


def test_a_panic_that_comes_back_is_an_alarm() -> None:
    state = observe(observe(after_reset(), "post_screen", 1.5), "crash_screen", 9.0)
    assert state.stage is Stage.HELD


def test_a_panic_that_does_not_go_is_off_script() -> None:
    state = observe(after_reset(), "crash_screen", 1.4, changed_at=1.0)
    state = observe(state, "crash_screen", 12.0, changed_at=1.0)
    assert state.escalation is not None
    assert state.escalation.reason is Reason.OFF_SCRIPT


class TestWhen:
    def test_values_skip_without_looking(self) -> None:
        steps = [{"when": {"value": "{{ x }}", "equals": "no"}, **PRESS} for _ in range(1500)]
        event = Started(
            0.0,
            "run",
            "lab1",
            {
                "name": "t",
                "vars": {"x": "yes"},
                "steps": [{"name": f"s{i}", **step} for i, step in enumerate(steps)],
            },
            PHASES,
            variables={"x": "yes"},
        )
        assert engine.start(event).outcome is Outcome.SUCCEEDED

    def test_a_phase_is_looked_at(self) -> None:
        step = {"when": "grub_menu", **PRESS}
        assert observe(start(step), "grub_menu", 1.0).stage is Stage.FIRING
        assert observe(start(step), "booting", 1.0).outcome is Outcome.SUCCEEDED

    def test_a_result_that_never_came_asks(self) -> None:
        first = {"when": "grub_menu", "wait_for": {"text": "x"}, "register": "r"}
        state = observe(
            start(first, {"when": {"value": "{{ r.match }}", "equals": "1"}, **PRESS}), "booting", 1.0
        )
        assert state.escalation is not None
        assert "has no value" in state.escalation.detail


def test_a_wait_registers_what_its_pattern_found() -> None:
    state = start({"wait_for": {"text": r"version (?P<v>\S+)"}, "register": "found"}, PRESS)
    state = observe(state, "shell_prompt", 1.0, text="version 6.1\n#")
    assert state.registered["found"] == {
        "phase": "shell_prompt",
        "text": "version 6.1\n#",
        "match": "version 6.1",
        "groups": {"1": "6.1", "v": "6.1"},
    }


def test_serial_text_counts_from_the_last_act_on() -> None:
    state = start({"wait_for": "grub_menu", **PRESS}, {"wait_for": {"serial": "READY"}})
    state = observe(state, "grub_menu", 1.0)
    state = engine.advance(engine.advance(state, Intended(1.1, serial_end=6)), Acted(1.2, "delivered"))
    assert engine.advance(state, Observed(1.3, said("READY\n", 1.3))).stage is Stage.WAITING
    assert engine.advance(state, Observed(1.3, said("READY\nREADY\n", 1.3))).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("place", ["wait_for", "expect", "when"])
def test_a_value_that_never_came_asks(place: str) -> None:
    condition = {"all": ["grub_menu", {"value": "{{ r.match }}", "equals": "1"}]}
    skipped = {"when": "shell_prompt", "wait_for": "shell_prompt", "register": "r"}
    state = start(skipped, {"wait_for": "grub_menu", **PRESS, place: condition})
    state = observe(state, "grub_menu", 1.0)
    if place == "expect":
        state = observe(state, "grub_menu", 1.1)
        state = engine.advance(engine.advance(state, Intended(1.2)), Acted(1.3, "delivered"))
    state = observe(state, "grub_menu", 2.0)
    assert state.escalation is not None
    assert (state.escalation.reason, "has no value" in state.escalation.detail) == (
        Reason.ACTION_FAILED,
        True,
    )


def test_waiting_for_seconds_is_watched() -> None:
    state = start({"action": "wait", "args": {"seconds": 60}}, PRESS)
    assert engine.effect(state) == engine.Watch()
    assert observe(state, "booting", 59.0).index == 0
    assert observe(state, "booting", 60.0).stage is Stage.FIRING
    assert observe(state, "crash_screen", 5.0).stage is Stage.HELD


def test_a_result_never_stands_for_a_variable() -> None:
    state = replace(start(PRESS), variables={"cmd": "ls"}, registered={"cmd": "rm -rf /"})
    assert state.scope["cmd"] == "ls"


def test_a_wait_registers_beside_the_action_s_result() -> None:
    step = {"wait_for": {"text": r"v(\d)"}, "register": "r", "action": "screenshot"}
    state = observe(start(step), "shell_prompt", 1.0, text="v7")
    state = engine.advance(
        engine.advance(state, Intended(1.1)), Acted(1.2, "delivered", result={"frame": "f.png"})
    )
    assert state.registered["r"] == {
        "phase": "shell_prompt", "text": "v7", "match": "v7", "groups": {"1": "7"}, "frame": "f.png",
    }  # fmt: skip
