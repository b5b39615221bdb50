"""When an action is done again, where a run begins, and a machine that stands still for long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.unit.playbook.seeing import observe, start

from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Frame, pixels_of
from reflexarc.observation import Observation
from reflexarc.playbook import engine
from reflexarc.playbook.events import Acted, Granted, Intended, Observed, Started, Verified
from reflexarc.playbook.loader import load_file
from reflexarc.playbook.state import Outcome, Reason, RunState, Stage
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers

TESTS = Path(__file__).parents[2]
PRESS = {"action": "press_key", "args": {"key": "enter"}, "expect": "login_prompt"}


def pressed(state: RunState, at: float) -> RunState:
    return engine.advance(engine.advance(state, Intended(at)), Acted(at + 0.1, "delivered"))


@pytest.mark.parametrize(
    ("wait_for", "before", "after", "again"),
    [
        ("grub_menu", ("grub_menu", 1.0), ("grub_menu", 1.0), True),
        ("grub_menu", ("grub_menu", 1.0), ("grub_menu", 5.0), True),
        ("grub_menu", ("grub_menu", 1.0), ("booting", 5.0), False),
        # Another screen of the same kind is another state.
        ("installer_welcome", ("installer_language", 1.0), ("installer_keyboard", 5.0), False),
        ({"not": "power_off"}, ("grub_menu", 1.0), ("booting", 5.0), False),
        # What says nothing of the machine: it is the state before only where nothing changed.
        ({"settled": 0.5}, ("grub_menu", 0.0), ("booting", 5.0), False),
        ({"settled": 0.5}, ("grub_menu", 0.0), ("grub_menu", 0.0), True),
    ],
)
def test_an_action_is_repeated_only_in_the_state_before_it(
    wait_for: object, before: tuple[str, float], after: tuple[str, float], again: bool
) -> None:
    state = start({"wait_for": wait_for, **PRESS, "hold_for": 0})
    state = observe(state, before[0], 1.0, changed_at=before[1])
    assert state.stage is Stage.FIRING
    state = pressed(state, 1.1)
    state = observe(state, after[0], 5.5, changed_at=after[1])
    assert state.stage is Stage.EXPECTING
    state = observe(state, after[0], 11.5, changed_at=after[1])
    if again:
        assert (state.stage, state.attempts) == (Stage.FIRING, 1)
    else:
        assert state.escalation is not None
        assert state.escalation.reason is Reason.EXPECTATION_FAILED


@pytest.mark.parametrize(("changed_at", "again"), [(0.9, True), (3.0, False)])
def test_a_step_that_awaited_nothing_is_repeated_where_nothing_changed(
    changed_at: float, again: bool
) -> None:
    state = observe(start({"wait_for": "grub_menu"}, PRESS), "grub_menu", 1.0)
    state = observe(pressed(state, 1.1), "grub_menu", 12.0, changed_at=changed_at)
    assert (state.stage is Stage.FIRING) is again


def test_it_is_repeated_as_often_as_the_step_says_and_then_asked_about() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS, "retries": 1}), "grub_menu", 1.0)
    state = observe(pressed(state, 1.1), "grub_menu", 12.0, changed_at=1.0)
    assert state.stage is Stage.FIRING
    state = observe(pressed(state, 12.1), "grub_menu", 30.0, changed_at=1.0)
    assert state.escalation is not None
    assert state.escalation.reason is Reason.EXPECTATION_FAILED


def test_what_held_before_the_act_must_come_anew_and_the_run_that_asks_says_so() -> None:
    step = {"wait_for": "grub_menu", **PRESS, "expect": "grub_menu", "retries": 0}
    state = observe(start(step), "grub_menu", 1.0)
    asked = observe(pressed(state, 1.1), "grub_menu", 12.0, changed_at=0.9)
    assert asked.escalation is not None
    assert (
        asked.escalation.detail
        == "what it expects held before the act already, and nothing has changed since"
    )
    done = observe(pressed(state, 1.1), "grub_menu", 3.0, changed_at=2.0)
    assert done.escalation is None


def test_an_action_of_unknown_delivery_is_never_repeated() -> None:
    state = observe(start({"wait_for": "grub_menu", **PRESS}), "grub_menu", 1.0)
    state = engine.advance(engine.advance(state, Intended(1.1)), Acted(1.2, "unknown", "lost"))
    state = observe(state, "grub_menu", 12.0, changed_at=1.0)
    assert state.escalation is not None
    assert state.escalation.reason is Reason.EXPECTATION_FAILED


def test_a_grant_binds_only_what_is_ahead() -> None:
    reset = {"action": "reset", "destructive": True, "precondition": "grub_menu"}
    more: dict[str, Any] = {"authorize": {"destructive": True, "ops": ["power.reset"]}}
    state = start(reset, {**reset, "precondition": "login_prompt"}, start_at=1, **more)
    assert state.step.name == "step 1"
    state = engine.advance(state, Granted(0.1, ("power.reset",), "somebody"))
    assert sorted(state.grants.values()) == [1]


class Machine:
    """Recorded screens, read by the ladder on a clock of the test's own."""

    def __init__(self) -> None:
        self.ladder = Ladder(load_recognisers())
        self.number = 0
        self.frame: Frame | None = None

    def show(self, name: str, at: float) -> None:
        with Image.open(TESTS / "screens" / f"{name}.png") as image:
            pixels = pixels_of(image)
        pixels.flags.writeable = False
        self.number += 1
        self.frame = Frame(pixels, at, self.number, True)

    def seen(self, at: float) -> Observation:
        if self.frame is None:
            return self.ladder.read(Readings(at, PowerState.OFF))
        return self.ladder.read(Readings(at, PowerState.ON, replace(self.frame, captured=at)))


def test_an_installation_that_stands_still_for_two_minutes_succeeds() -> None:
    """The design's own example, on recorded screens: the progress screen may show, and for long."""
    recognisers = load_recognisers()
    book = load_file(TESTS / "playbooks/unattended-ubuntu-install.yaml", recognisers.phases)
    ops = ("media.mount", "power.cycle", "media.eject")
    state = engine.start(
        Started(
            0.0,
            "run",
            "lab1",
            book.source,
            tuple(recognisers.phases.values()),
            {"iso": "/iso/ubuntu.iso"},
            grant=ops,
        )
    )
    machine, now, done = Machine(), 0.0, []

    def fire() -> None:
        nonlocal state, now
        if state.stage is Stage.VERIFYING:
            state = engine.advance(state, Verified(now, machine.seen(now)))
        assert state.stage is Stage.FIRING, state.escalation
        done.append(state.step.operation)
        state = engine.advance(engine.advance(state, Intended(now)), Acted(now + 0.1, "delivered"))
        now += 0.2

    def look(seconds: float) -> None:
        nonlocal state, now
        for _ in range(round(seconds)):
            now += 1.0
            state = engine.advance(state, Observed(now, machine.seen(now)))
            if state.stage is not Stage.WAITING:
                return

    fire()
    fire()
    machine.show("grub_menu", now)
    look(5)
    fire()
    machine.show("di_base_system", now)
    look(120)
    assert (state.stage, state.step.name, state.phase) == (
        Stage.WAITING,
        "Confirm complete + detach",
        "installer_progress",
    )
    machine.show("di_complete", now)
    look(5)
    fire()
    assert (state.outcome, done) == (
        Outcome.SUCCEEDED,
        ["media.mount", "power.cycle", "keyboard.press", "media.eject"],
    )
    assert now > 120
    assert np.isfinite(now)
