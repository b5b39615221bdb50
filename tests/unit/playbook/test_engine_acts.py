"""The engine by itself: what has to hold before an act, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.playbook.states import PHASES, PRESS, RESET, observe, said, seen, start

from reflexarc.playbook import engine
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

    @pytest.mark.parametrize(
        ("step", "asks"),
        [
            ({"action": "exec", "args": {"argv": ["make"]}}, True),
            ({"action": "run_serial", "args": {"command": "make"}}, True),
            ({"action": "upload", "args": {"source": "a", "target": "/a"}}, True),
            ({"action": "download", "args": {"source": "/a", "target": "a"}}, True),
            ({"action": "ax_press", "args": {"name": "Save"}}, False),
            (PRESS, False),
        ],
    )
    def test_unknown_without_an_expectation_asks_where_only_the_result_tells(
        self, step: dict[str, object], asks: bool
    ) -> None:
        state = engine.advance(engine.advance(start(step), Intended(1.0)), Acted(1.1, "unknown", "gone"))
        if not asks:
            assert (state.outcome, len(state.warnings)) == (Outcome.SUCCEEDED, 1)
            return
        assert state.escalation is not None
        assert (state.escalation.reason, state.escalation.detail) == (Reason.CONNECTION_LOST, "gone")


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


def test_a_lost_connection_asks() -> None:
    state = engine.advance(start({"wait_for": "grub_menu"}), Lost(1.0, "QEMU has ended"))
    assert state.escalation is not None
    assert (state.escalation.reason, state.escalation.detail) == (Reason.CONNECTION_LOST, "QEMU has ended")


def test_a_machine_lost_in_doubt_says_what_is_in_doubt() -> None:
    state = engine.advance(TestDoubt().acting(**PRESS), Resumed(5.0))
    state = engine.advance(state, Lost(5.1, "gone"))
    assert state.escalation is not None
    assert (state.escalation.reason, "press_key" in state.escalation.detail) == (Reason.INTERRUPTED, True)
    assert state.input_sent


def test_an_amendment_brings_its_defaults() -> None:
    state = TestReplies().held()
    amended = {
        "name": "x",
        "vars": {"who": "bob"},
        "steps": [{"name": "a", "when": {"value": "{{ who }}", "equals": "bob"}, **PRESS}],
    }
    state = engine.advance(state, Replied(2.0, 1, "amend", playbook=amended, resume_at=0))
    assert state.stage is Stage.FIRING


def test_a_host_that_was_restarted_has_another_clock() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "crash_screen", 90_000.0)
    state = engine.advance(engine.advance(state, Resumed(12.0)), Replied(13.0, 1, "resume"))
    assert observe(state, "grub_menu", 14.0).stage is Stage.FIRING
