"""The machine moves on between a match and the act, at any event: what is destructive never fires then."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.played import PANIC, lab, menu, script, text

from reflexarc.drivers.replay.script import Entry, Reaction
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Pixels
from reflexarc.playbook.events import Event, Intended
from reflexarc.playbook.state import Reason, RunState, Stage
from reflexarc.runs.ledger import Ledger

DESTRUCTIVE = ("power.reset", "power.off", "power.shutdown", "power.cycle")
AUTHORIZED = {
    "authorize": {"destructive": True, "ops": ["power"]},
    "defaults": {"timeout": 0.6},
    "unknown_after": 0.3,
}
LOWER = {"text": "Debian GNU/Linux$", "highlighted": True}
WAITED = {"name": "reset", "wait_for": "grub_menu", "action": "reset", "destructive": True}
GUARDED = {"name": "reset", "action": "reset", "destructive": True, "precondition": LOWER}
STEPS: dict[str, list[dict[str, object]]] = {
    "what it waited for": [
        {"name": "menu", "wait_for": "grub_menu"},
        WAITED,
    ],
    "a precondition": [
        {"name": "down", "wait_for": "grub_menu", "action": "press_key", "args": {"key": "down"}, "expect": LOWER},
        GUARDED,
    ],
    "two acts": [
        WAITED,
        {"name": "cut", "wait_for": "grub_menu", "action": "hard_off", "destructive": True},
    ],
    "nothing but that no alarm shows": [
        {"name": "reset", "action": "reset", "destructive": True},
    ],
}  # fmt: skip
ELSEWHERE = {"a panic": text(PANIC), "nothing": text([""])}
CASES = [(steps, shown) for steps in STEPS for shown in ELSEWHERE]
# A dark screen is no alarm.
CASES.remove(("nothing but that no alarm shows", "nothing"))
EVENTS = 16


def play(
    state: Path, steps: list[dict[str, object]], at: int, pixels: Pixels
) -> tuple[list[str], RunState, int]:
    """Run the steps; after event `at` the machine shows something else for good."""
    reset = Reaction((Entry(0.0, menu(0)),), operation="power.reset", repeat=True)
    down = Reaction((Entry(0.0, menu(1)),), key="down")
    begins = script(entries=(Entry(0.0, menu(0)),), reactions=(reset, down), power=PowerState.ON)

    async def go() -> tuple[list[str], RunState, int]:
        async with lab(state, begins) as it:
            events, sent_before = 0, -1

            def listener(event: Event, before: RunState, after: RunState) -> None:
                nonlocal events, sent_before
                if events == at:
                    sent_before = len(it.sent())
                if events >= at:
                    it.machine.play(Entry(0.0, pixels))
                events += 1

            run = await it.session.begin(
                {"name": "moved", **AUTHORIZED, "steps": steps}, grant=["power"], listener=listener
            )
            ended = await run.drive()
            assert Ledger.open(it.session.journal, run.id).state == ended
            return it.sent()[max(0, sent_before) :] if sent_before >= 0 else [], ended, events

    return asyncio.run(go())


@pytest.mark.parametrize(("steps", "elsewhere"), CASES)
def test_nothing_destructive_fires_on_a_screen_that_changed(
    tmp_path: Path, steps: str, elsewhere: str
) -> None:
    reached = 0
    for at in range(EVENTS):
        (tmp_path / str(at)).mkdir()
        fired, state, events = play(tmp_path / str(at), STEPS[steps], at, ELSEWHERE[elsewhere])
        if events <= at:
            break
        reached = at
        assert not set(fired) & set(DESTRUCTIVE), (at, fired, state)
    assert reached >= 2


def test_what_changes_after_the_intent_is_told_and_the_grant_stays(tmp_path: Path) -> None:
    async def go() -> None:
        begins = script(entries=(Entry(0.0, menu(0)),), reactions=(), power=PowerState.ON)
        async with lab(tmp_path, begins) as it:

            def listener(event: Event, before: RunState, after: RunState) -> None:
                if isinstance(event, Intended) and not it.sent() and not after.escalations:
                    it.machine.play(Entry(0.0, text(PANIC)))

            run = await it.session.begin(
                {"name": "moved", **AUTHORIZED, "steps": [WAITED]}, grant=["power"], listener=listener
            )
            state = await run.drive()
            assert (state.stage, it.sent()) == (Stage.HELD, [])
            assert run.escalation is not None
            assert run.escalation.reason is Reason.PRECONDITION_MISMATCH
            assert run.escalation.observed_phase == "crash_screen"
            assert "nothing was sent" in run.escalation.detail
            assert sum(state.grants.values()) == 1

    asyncio.run(go())
