"""A run that failed and went back, as its report tells it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.played import SHELL, lab, text
from tests.unit.report.conftest import story_of

from reflexarc.drivers.replay.script import Entry, Fault, ReplayScript
from reflexarc.report.story import Story

BOOK = {
    "name": "back",
    "authorize": {"destructive": True, "ops": ["snapshot.restore"]},
    "on_failure": {"rollback": "clean"},
    "steps": [
        {"name": "save", "action": "snapshot", "args": {"name": "clean"}},
        {"name": "stop", "action": "fail", "args": {"message": "no luck"}},
        {"name": "after", "action": "freeze"},
    ],
}


def told(tmp_path: Path, *faults: Fault) -> Story:
    played = ReplayScript(
        entries=(Entry(frame=text(SHELL)),), speed=1.0, faults={"snapshot.restore": faults} if faults else {}
    )

    async def play() -> Story:
        async with lab(tmp_path, played) as it:
            run = await it.session.begin(BOOK, grant=["snapshot.restore"])
            await run.drive()
            run.release()
            return story_of(tmp_path, run.id)

    return asyncio.run(play())


@pytest.mark.parametrize(("faults", "outcome"), [((), "passed"), ((Fault.REJECT,), "failed")])
def test_the_step_that_failed_stays_the_one_that_failed(
    tmp_path: Path, faults: tuple[Fault, ...], outcome: str
) -> None:
    story = told(tmp_path, *faults)
    assert {step.step.name: str(step.outcome) for step in story.steps} == {
        "save": "passed",
        "stop": "failed",
        "after": "not reached",
        "on_failure: back to clean": outcome,
    }
    assert story.state.reason.startswith("no luck; ")
