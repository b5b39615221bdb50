"""Clocks that jump: the wall's is put right, the host's begins anew with every boot."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.outliving import Death, Drive, Outliving, run
from tests.unit.runs.test_crashes import PLAYBOOK, SCRIPT, SECRET, WHOLE, Place

from reflexarc.observation import Observation, Phase
from reflexarc.playbook import engine
from reflexarc.playbook.events import Event, Lost, Observed, Replied, Resumed, Started
from reflexarc.playbook.state import Outcome, Reason, Stage
from reflexarc.runs.describe import describe_escalation
from reflexarc.runs.telemetry import measure, seconds_between

PHASES = (Phase("grub_menu"), Phase("booting", passing=True), Phase("unknown"))
# Seconds by which the clock of the earlier boot was ahead of this one's.
BOOTS = [1e6, -1e6]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Outliving(tmp_path / "socket", SCRIPT).served() as machine:
        yield Place(machine, Drive(tmp_path, machine.socket, PLAYBOOK, secrets=SECRET, grant=("power",)))


def _moved(value: object, seconds: float) -> object:
    """An event's JSON with every moment in it moved."""
    if isinstance(value, dict):
        moments = ("at", "changed_at", "pressed_at")
        return {
            key: item + seconds if key in moments and isinstance(item, float) else _moved(item, seconds)
            for key, item in value.items()
        }
    return [_moved(item, seconds) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("ahead", BOOTS)
def test_a_run_of_another_boot_goes_on(place: Place, ahead: float) -> None:
    assert run(replace(place.drive, death=Death("sent", 8))) == -9
    with sqlite3.connect(place.drive.state / "runs.sqlite") as db:
        for number, body in db.execute("SELECT number, body FROM events").fetchall():
            moved = json.dumps(_moved(json.loads(body), ahead))
            db.execute("UPDATE events SET body = ? WHERE number = ?", (moved, number))
    state = place.go_on()
    assert state.outcome is Outcome.SUCCEEDED
    assert place.machine.operations == WHOLE


def _seen(phase: str, at: float) -> Observed:
    return Observed(at, Observation(phase, 1.0, "text", at, at, origin="text", complete=True))


@pytest.mark.parametrize("ahead", BOOTS)
def test_deadlines_begin_anew(ahead: float) -> None:
    steps = [{"name": "menu", "wait_for": "grub_menu", "timeout": 10.0}]
    was = 2e6 + ahead
    state = engine.start(Started(was, "run", "lab", {"name": "p", "steps": steps}, PHASES))
    state = engine.advance(state, _seen("booting", was + 6))
    state = engine.advance(state, Resumed(2e6))
    assert engine.advance(state, _seen("booting", 2e6 + 9.9)).stage is Stage.WAITING
    timed_out = engine.advance(state, _seen("booting", 2e6 + 10.1))
    assert timed_out.escalation is not None
    assert timed_out.escalation.reason is Reason.TIMEOUT


@pytest.mark.parametrize("ahead", BOOTS)
def test_how_long_a_phase_showed_stays_true(ahead: float) -> None:
    steps = [{"name": "menu", "wait_for": "grub_menu"}]
    was = 2e6 + ahead
    state = engine.start(Started(was, "run", "lab", {"name": "p", "steps": steps}, PHASES))
    for event in (_seen("booting", was + 1), _seen("unknown", was + 4), Lost(was + 6, "gone"), Resumed(2e6)):
        state = engine.advance(state, event)
    assert state.escalation is not None
    assert describe_escalation(state, state.escalation)["history"] == [
        {"phase": "booting", "seconds": 3.0},
        {"phase": "unknown", "seconds": 2.0},
    ]


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_wall_clock_that_jumps_adds_no_time(jump: float) -> None:
    steps = [{"name": "menu", "wait_for": "grub_menu"}]
    events: list[Event] = [
        Started(10.0, "run", "lab", {"name": "p", "steps": steps}, PHASES),
        _seen("booting", 12.0),
        _seen("unknown", 13.0),
        Resumed(5.0),
        _seen("grub_menu", 6.0),
    ]
    walls = [100.0, 102.0 + jump, 103.0 + jump, 140.0 + jump, 141.0 + jump]
    assert seconds_between(events, walls) == [2.0, 1.0, 37.0, 1.0]
    assert measure(events, walls).seconds == 4.0


def test_a_run_is_held_until_another_process_answers() -> None:
    steps = [{"name": "fail", "action": "fail", "args": {"message": "x"}}]
    held = [{"name": "menu", "wait_for": "grub_menu", "timeout": 2}]
    events: list[Event] = [
        Started(10.0, "run", "lab", {"name": "p", "steps": [*held, *steps]}, PHASES),
        _seen("unknown", 12.5),
        Resumed(112.5),
        Replied(113.0, 1, "resume"),
    ]
    (menu,) = measure(events, [0.0, 2.5, 102.5, 103.0]).steps
    assert (menu.waiting, menu.acting, menu.held) == (2.5, 0.0, 100.5)
