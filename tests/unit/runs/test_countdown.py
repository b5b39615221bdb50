"""`press_until` on a menu whose countdown runs: each press is answered once, however often the screen changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.played import MENU, lab, script
from tests.unit.sensing.render import VGA, Console

from reflexarc.drivers.replay.script import Entry, Reaction
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Pixels
from reflexarc.playbook.state import Outcome, RunState

TICK = 0.15


def counting(selected: int, left: int, *, highlights: bool) -> Pixels:
    """A boot menu with so many seconds left; without highlighting a star tells the entry."""
    lines = ["", "                       GNU GRUB  version 2.06", "", " ┌" + "─" * 76 + "┐"]
    lines += [f" │{('*' if i == selected else ' ') + entry:76}│" for i, entry in enumerate(MENU)]
    lines += [" │" + " " * 76 + "│"] * 9
    lines += [
        " └" + "─" * 76 + "┘",
        "",
        "      Use the ↑ and ↓ keys to select which entry is highlighted.",
        "      Press enter to boot the selected OS, `e' to edit the commands",
        f"   The highlighted entry will be executed automatically in {left}s.",
    ]
    row = 4 + selected
    cells = frozenset((row, column) for column in range(2, 78))
    return (Console(inverted=cells) if highlights else VGA).pixels(lines)


def run(state: Path, *, highlights: bool, late: float) -> RunState:
    """Two entries, of which the second is wanted; the menu answers a press after `late` seconds."""

    def countdown(selected: int, begin: float = 0.0) -> list[Entry]:
        return [Entry(begin + n * TICK, counting(selected, 60 - n, highlights=highlights)) for n in range(40)]

    answers = [*countdown(0)[: int(late / TICK)], *countdown(1, late)]
    down = Reaction(tuple(answers), key="down")
    played = script(entries=tuple(countdown(0)), reactions=(down, down), power=PowerState.ON)
    wanted = (
        {"text": "Debian GNU/Linux$", "highlighted": True}
        if highlights
        else {"text": r"\*Debian GNU/Linux +│"}
    )
    step = {
        "name": "choose",
        "action": "press_until",
        "args": {"key": "down", "until": wanted},
        "register": "it",
    }

    async def play() -> RunState:
        async with lab(state, played) as it:
            begun = await it.session.begin({"name": "menu", "steps": [step]})
            return await begun.drive()

    return asyncio.run(play())


@pytest.mark.parametrize("highlights", [True, False])
@pytest.mark.parametrize("late", [0.0, 0.7])
def test_a_running_countdown_is_no_answer(tmp_path: Path, highlights: bool, late: float) -> None:
    state = run(tmp_path, highlights=highlights, late=late)
    assert (state.outcome, state.registered["it"]) == (Outcome.SUCCEEDED, {"presses": 1})
