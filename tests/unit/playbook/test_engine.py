"""The engine by itself: what a run does on which evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reflexarc.observation import Observation, Phase, ScreenText
from reflexarc.playbook import engine, waiting
from reflexarc.playbook.events import (
    Acted,
    Doubted,
    Granted,
    Intended,
    Looked,
    Lost,
    Observed,
    Replied,
    Resumed,
    Started,
    Touched,
    Verified,
)
from reflexarc.playbook.state import Outcome, Reason, RunState, Stage

PHASES = (
    Phase("power_off"),
    Phase("post_screen", passing=True),
    Phase("booting", passing=True, usual_max=600),
    Phase("grub_menu", usual_max=60),
    Phase("grub_edit"),
    Phase("login_prompt"),
    Phase("shell_prompt"),
    Phase("installer_welcome"),
    Phase("installer_language", parent="installer_welcome"),
    Phase("crash_screen", alarm=True),
    Phase("unknown"),
)


def start(*steps: Mapping[str, object], **top: object) -> RunState:
    playbook = {"name": "test", "steps": [{"name": f"step {i}", **s} for i, s in enumerate(steps)], **top}
    return engine.start(Started(0.0, "run", "lab1", playbook, PHASES))


def said(text: str, at: float, *, end: int | None = None) -> Observation:
    return replace(
        seen("unknown", at, rung="none"), serial=text, serial_end=len(text) if end is None else end
    )


def seen(
    phase: str,
    at: float,
    *,
    changed_at: float | None = None,
    confidence: float = 1.0,
    complete: bool = True,
    rung: str = "text",
    text: str = "",
    guess: str | None = None,
) -> Observation:
    return Observation(
        phase,
        confidence,
        rung,
        at,
        at if changed_at is None else changed_at,
        origin=rung,
        complete=complete,
        screen=ScreenText(tuple(text.splitlines())),
        guess=guess,
    )


def observe(state: RunState, phase: str, at: float, **more: object) -> RunState:
    return engine.advance(state, Observed(at, seen(phase, at, **more)))  # type: ignore[arg-type]


PRESS = {"action": "press_key", "args": {"key": "enter"}}
RESET = {"action": "reset", "destructive": True}


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


def after_reset() -> RunState:
    """A panic was answered with a reset; the step after it waits."""
    state = start(
        {"wait_for": "crash_screen", **RESET},
        {"wait_for": "grub_menu"},
        authorize={"destructive": True, "ops": ["power.reset"]},
    )
    state = engine.advance(state, Granted(0.5, ("power.reset",), "somebody"))
    state = observe(state, "crash_screen", 1.0)
    state = engine.advance(state, Verified(1.1, seen("crash_screen", 1.05)))
    return engine.advance(engine.advance(state, Intended(1.2)), Acted(1.3, "delivered"))


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


class TestDestructive:
    def begin(self, *ops: str, **step: object) -> RunState:
        state = start(
            {"wait_for": "login_prompt", **RESET, **step},
            authorize={"destructive": True, "ops": ["power.reset"]},
        )
        return engine.advance(state, Granted(0.5, ops, "somebody")) if ops else state

    def test_without_a_grant_it_asks(self) -> None:
        state = observe(self.begin(), "login_prompt", 1.0)
        assert state.escalation is not None
        assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION
        assert "--grant power.reset" in state.escalation.detail

    def test_a_grant_with_the_reply_lets_it_go_on(self) -> None:
        state = observe(self.begin(), "login_prompt", 1.0)
        state = engine.advance(state, Replied(2.0, 1, "resume", grant=("power.reset",)))
        assert observe(state, "login_prompt", 2.1).stage is Stage.VERIFYING

    def test_what_the_playbook_does_not_ask_for_cannot_be_granted(self) -> None:
        state = start({"wait_for": "login_prompt", **RESET})
        state = engine.advance(state, Granted(0.5, ("power.reset",), "somebody"))
        held = observe(state, "login_prompt", 1.0).escalation
        assert held is not None
        assert held.reason is Reason.NEEDS_AUTHORIZATION

    def test_the_policy_of_the_machine_wins(self) -> None:
        event = Started(
            0.0,
            "run",
            "lab1",
            {
                "name": "x",
                "authorize": {"destructive": True, "ops": ["power"]},
                "steps": [{"name": "a", **RESET, "precondition": "login_prompt"}],
            },
            PHASES,
            policy=("input",),
        )
        assert engine.start(event).escalation is not None

    def test_a_fresh_reading_fires(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        assert engine.effect(state) == engine.Verify()
        state = engine.advance(state, Verified(1.1, seen("login_prompt", 1.05)))
        assert state.stage is Stage.FIRING
        assert engine.advance(state, Intended(1.2)).stage is Stage.ACTING

    def test_a_reading_from_before_the_decision_does_not_fire(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        assert engine.advance(state, Verified(1.1, seen("login_prompt", 0.9))).stage is Stage.VERIFYING

    def test_without_a_fresh_reading_it_asks_in_the_end(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        state = engine.advance(state, Verified(40.0, seen("login_prompt", 1.5)))
        assert state.escalation is not None
        assert state.escalation.reason is Reason.PRECONDITION_MISMATCH

    def test_another_phase_does_not_fire(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        state = engine.advance(state, Verified(1.1, seen("shell_prompt", 1.05)))
        assert state.escalation is not None
        assert state.escalation.reason is Reason.PRECONDITION_MISMATCH

    def test_evidence_that_got_old_is_taken_again(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        state = engine.advance(state, Verified(1.1, seen("login_prompt", 1.05)))
        assert engine.advance(state, Intended(3.2)).stage is Stage.VERIFYING

    def test_the_vision_model_s_word_never_satisfies_it(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        state = engine.advance(state, Verified(1.1, seen("login_prompt", 1.05, rung="vision")))
        assert state.stage is Stage.HELD

    def test_power_off_must_come_from_the_power_rung(self) -> None:
        step = {"precondition": "power_off", "wait_for": None}
        state = self.begin("power", **step)
        assert state.stage is Stage.HELD  # not granted when the run began
        state = engine.advance(state, Replied(0.6, 1, "resume", grant=("power",)))
        assert engine.advance(state, Verified(1.0, seen("power_off", 1.0))).stage is Stage.HELD
        assert (
            engine.advance(state, Verified(1.0, seen("power_off", 1.0, rung="power"))).stage is Stage.FIRING
        )

    def test_a_grant_is_used_up(self) -> None:
        state = observe(self.begin("power"), "login_prompt", 1.0)
        state = engine.advance(state, Verified(1.1, seen("login_prompt", 1.05)))
        state = engine.advance(engine.advance(state, Intended(1.2)), Acted(1.3, "failed", "busy"))
        assert state.escalation is not None
        assert (state.escalation.reason, state.escalation.detail) == (Reason.ACTION_FAILED, "busy")
        state = engine.advance(state, Replied(2.0, 1, "resume"))
        state = observe(state, "login_prompt", 2.5)
        assert state.escalation is not None
        assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION

    def test_without_any_condition_it_fires_only_before_input(self) -> None:
        first = start(RESET, authorize={"destructive": True, "ops": ["power.reset"]})
        first = engine.advance(first, Replied(0.1, 1, "resume", grant=("power.reset",)))
        assert engine.advance(first, Verified(0.2, seen("unknown", 0.2))).stage is Stage.FIRING
        assert engine.advance(first, Verified(0.2, seen("crash_screen", 0.2))).stage is Stage.HELD
        touched = replace(first, input_sent=True)
        assert engine.advance(touched, Verified(0.2, seen("unknown", 0.2))).stage is Stage.HELD

    def test_an_amended_argument_is_not_granted(self) -> None:
        step = {"name": "off", "action": "shutdown", "destructive": True, "wait_for": "login_prompt"}
        top = {"name": "test", "authorize": {"destructive": True, "ops": ["power.shutdown"]}}
        state = engine.start(Started(0.0, "run", "lab1", {**top, "steps": [step]}, PHASES))
        state = engine.advance(state, Granted(0.1, ("power.shutdown",), "somebody"))
        state = observe(state, "crash_screen", 1.0)
        amended = {**top, "steps": [{**step, "args": {"timeout": 5}}]}
        state = engine.advance(state, Replied(2.0, 1, "amend", playbook=amended))
        state = observe(state, "login_prompt", 3.0)
        assert state.escalation is not None
        assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION


class TestExpect:
    def acted(self, **step: object) -> RunState:
        step = {"wait_for": "grub_menu", **PRESS, "expect": "booting", **step}
        state = observe(start(step), "grub_menu", 1.0)
        return engine.advance(engine.advance(state, Intended(1.01)), Acted(1.1, "delivered"))

    def test_what_was_expected_ends_the_step(self) -> None:
        assert observe(self.acted(), "booting", 1.5).outcome is Outcome.SUCCEEDED

    def test_it_is_repeated_while_the_state_before_is_still_there(self) -> None:
        state = observe(self.acted(), "grub_menu", 11.2, changed_at=0.9)
        assert (state.stage, state.attempts) == (Stage.FIRING, 1)

    def test_it_is_not_repeated_once_the_screen_is_another(self) -> None:
        state = observe(self.acted(), "grub_edit", 11.2)
        assert state.escalation is not None
        assert state.escalation.reason is Reason.EXPECTATION_FAILED

    def test_retries_end(self) -> None:
        state = self.acted(retries=1)
        state = observe(state, "grub_menu", 11.2, changed_at=0.9)
        state = engine.advance(engine.advance(state, Intended(11.3)), Acted(11.4, "delivered"))
        assert observe(state, "grub_menu", 21.5, changed_at=0.9).stage is Stage.HELD

    def test_delivery_unknown_is_never_repeated(self) -> None:
        state = observe(start({"wait_for": "grub_menu", **PRESS, "expect": "booting"}), "grub_menu", 1.0)
        state = engine.advance(engine.advance(state, Intended(1.01)), Acted(1.1, "unknown", "gone"))
        assert observe(state, "grub_menu", 11.2, changed_at=0.9).stage is Stage.HELD


class TestDoubt:
    def acting(self, **step: object) -> RunState:
        return engine.advance(
            observe(start({"wait_for": "grub_menu", **step}), "grub_menu", 1.0), Intended(1.1)
        )

    def test_a_key_in_doubt_asks(self) -> None:
        state = engine.advance(self.acting(**PRESS), Resumed(5.0))
        assert engine.effect(state) == engine.Look()
        state = engine.advance(state, Looked(5.1, seen("grub_menu", 5.1)))
        assert state.escalation is not None
        assert state.escalation.reason is Reason.INTERRUPTED

    def test_an_expectation_decides(self) -> None:
        state = engine.advance(self.acting(**PRESS, expect="booting"), Resumed(5.0))
        state = engine.advance(state, Looked(5.1, seen("booting", 5.1)))
        assert observe(state, "booting", 5.2).outcome is Outcome.SUCCEEDED

    def test_an_effect_that_is_seen_goes_on(self) -> None:
        state = engine.advance(self.acting(action="power_on"), Resumed(5.0))
        assert engine.advance(state, Looked(5.1, seen("post_screen", 5.1))).outcome is Outcome.SUCCEEDED
        off = seen("power_off", 5.1, rung="power")
        assert engine.advance(state, Looked(5.1, off)).stage is Stage.HELD

    def test_a_note_is_simply_made_again(self) -> None:
        state = engine.advance(self.acting(action="note", args={"text": "x"}), Resumed(5.0))
        assert state.stage is Stage.FIRING

    def test_a_damaged_journal_asks(self) -> None:
        state = engine.advance(self.acting(**PRESS), Doubted(2.0, "event 4 can't be read"))
        assert state.escalation is not None
        assert state.escalation.reason is Reason.INTERRUPTED


class TestReplies:
    def held(self) -> RunState:
        return observe(
            start({"wait_for": "grub_menu", **PRESS}, {"wait_for": "login_prompt"}), "crash_screen", 1.0
        )

    def test_resume_waits_again(self) -> None:
        state = engine.advance(self.held(), Replied(2.0, 1, "resume"))
        assert (state.stage, state.index, state.escalation) == (Stage.WAITING, 0, None)

    def test_a_stale_reply_changes_nothing(self) -> None:
        assert engine.advance(self.held(), Replied(2.0, 7, "resume")) == self.held()

    def test_act_puts_steps_before_the_held_one(self) -> None:
        inline = ({"name": "extra", **PRESS},)
        state = engine.advance(self.held(), Replied(2.0, 1, "act", steps=inline))
        assert (state.step.name, state.stage) == ("extra", Stage.FIRING)
        state = engine.advance(engine.advance(state, Intended(2.1)), Acted(2.2, "delivered"))
        assert state.step.name == "step 0"

    def test_amend_goes_on_at_the_held_name(self) -> None:
        amended = {
            "name": "better",
            "steps": [{"name": "new", **PRESS}, {"name": "step 0", "wait_for": "shell_prompt"}],
        }
        state = engine.advance(self.held(), Replied(2.0, 1, "amend", playbook=amended))
        assert (state.index, state.step.name) == (1, "step 0")
        state = engine.advance(self.held(), Replied(2.0, 1, "amend", playbook=amended, resume_at="new"))
        assert state.stage is Stage.FIRING

    def test_abort_ends(self) -> None:
        state = engine.advance(self.held(), Replied(2.0, 1, "abort", reason="enough"))
        assert (state.outcome, state.reason) == (Outcome.ABORTED, "enough")

    def test_what_others_sent_makes_earlier_evidence_stale(self) -> None:
        state = engine.advance(self.held(), Touched(3.0, "keyboard.press", "somebody"))
        state = engine.advance(state, Replied(4.0, 1, "resume"))
        assert engine.advance(state, Observed(4.1, seen("grub_menu", 2.9))).stage is Stage.WAITING

    def test_too_many_escalations_fail_the_run(self) -> None:
        state = self.held()
        for n in range(1, 21):
            state = engine.advance(state, Replied(2.0 * n, n, "resume"))
            state = observe(state, "crash_screen", 2.0 * n + 1)
        assert (state.outcome, state.stage) == (Outcome.FAILED, Stage.ENDED)


def test_a_lost_connection_asks() -> None:
    state = engine.advance(start({"wait_for": "grub_menu"}), Lost(1.0, "QEMU has ended"))
    assert state.escalation is not None
    assert (state.escalation.reason, state.escalation.detail) == (Reason.CONNECTION_LOST, "QEMU has ended")


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


NOT_ENOUGH = {
    "not, on an unknown screen": (
        {"not": "installer_welcome"},
        seen("unknown", 1.05, confidence=0.0, rung="none"),
    ),
    "not, on a guess": ({"not": "crash_screen"}, seen("grub_edit", 1.05, confidence=0.5)),
    "not, by the vision model": ({"not": "crash_screen"}, seen("grub_edit", 1.05, rung="vision")),
    "text, by the vision model": ({"text": "x"}, seen("grub_edit", 1.05, rung="vision", text="x")),
    "no text at all": ({"not": {"text": "x"}}, replace(seen("grub_edit", 1.05), screen=None)),
    "the wrong rung": ({"not": "power_off"}, seen("power_off", 1.05, rung="text")),
    "one of any": ({"any": ["installer_welcome", {"settled": 0}]}, seen("grub_edit", 1.05)),
    "time beside a phase": ({"all": ["login_prompt", {"settled": 0}]}, seen("grub_edit", 1.05)),
    "a value beside a phase": (
        {"any": ["login_prompt", {"value": "x", "equals": "x"}]},
        seen("grub_edit", 1.05),
    ),
}


@pytest.mark.parametrize("why", NOT_ENOUGH)
def test_what_does_not_satisfy_a_precondition(why: str) -> None:
    precondition, evidence = NOT_ENOUGH[why]
    state = TestDestructive().begin("power", precondition=precondition)
    state = observe(state, "login_prompt", 1.0)
    state = engine.advance(state, Verified(1.1, evidence))
    assert state.escalation is not None
    assert state.escalation.reason is Reason.PRECONDITION_MISMATCH


@pytest.mark.parametrize("vacuous", [{"settled": 0}, {"value": "x", "equals": "x"}, {"changed": False}])
def test_a_precondition_that_looks_at_nothing_is_none(vacuous: dict[str, object]) -> None:
    state = start(
        {"wait_for": vacuous, **RESET, "precondition": vacuous},
        authorize={"destructive": True, "ops": ["power.reset"]},
    )
    assert state.step.must_hold is None


def test_serial_text_counts_from_the_last_act_on() -> None:
    state = start({"wait_for": "grub_menu", **PRESS}, {"wait_for": {"serial": "READY"}})
    state = observe(state, "grub_menu", 1.0)
    state = engine.advance(engine.advance(state, Intended(1.1, serial_end=6)), Acted(1.2, "delivered"))
    assert engine.advance(state, Observed(1.3, said("READY\n", 1.3))).stage is Stage.WAITING
    assert engine.advance(state, Observed(1.3, said("READY\nREADY\n", 1.3))).outcome is Outcome.SUCCEEDED


def test_what_the_console_said_before_its_last_line_is_no_precondition() -> None:
    state = TestDestructive().begin("power", precondition={"serial": "READY TO RESET"})
    state = observe(state, "login_prompt", 1.0)
    held = engine.advance(state, Verified(1.1, said("READY TO RESET\nFATAL, do not reset\n", 1.05)))
    assert held.stage is Stage.HELD
    assert engine.advance(state, Verified(1.1, said("boot\nREADY TO RESET\n", 1.05))).stage is Stage.FIRING


def test_a_failed_act_that_sent_something_is_input() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "grub_menu", 1.0)
    state = engine.advance(state, Intended(1.1))
    assert engine.advance(state, Acted(1.2, "failed", "no answer", sent=True)).input_sent
    assert not engine.advance(state, Acted(1.2, "failed", "refused", sent=False)).input_sent


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


def test_a_machine_lost_in_doubt_says_what_is_in_doubt() -> None:
    state = engine.advance(TestDoubt().acting(**PRESS), Resumed(5.0))
    state = engine.advance(state, Lost(5.1, "gone"))
    assert state.escalation is not None
    assert (state.escalation.reason, "press_key" in state.escalation.detail) == (Reason.INTERRUPTED, True)
    assert state.input_sent


def test_a_host_that_was_restarted_has_another_clock() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "crash_screen", 90_000.0)
    state = engine.advance(engine.advance(state, Resumed(12.0)), Replied(13.0, 1, "resume"))
    assert observe(state, "grub_menu", 14.0).stage is Stage.FIRING


def test_an_amendment_brings_its_defaults() -> None:
    state = TestReplies().held()
    amended = {
        "name": "x",
        "vars": {"who": "bob"},
        "steps": [{"name": "a", "when": {"value": "{{ who }}", "equals": "bob"}, **PRESS}],
    }
    state = engine.advance(state, Replied(2.0, 1, "amend", playbook=amended, resume_at=0))
    assert state.stage is Stage.FIRING


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
