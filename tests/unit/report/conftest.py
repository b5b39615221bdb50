"""Runs to report on: played ones that succeed, are held, fail, and one on a machine that shows hostile text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.played import ANSWERED, PASSWORD, PLAYBOOK, STEPS, lab, script, text

from reflexarc.drivers.replay.script import Entry, ReplayScript
from reflexarc.report.story import Story, tell
from reflexarc.runs.journal import Journal
from reflexarc.runs.replies import Reply

HOSTILE = ('root@lab:~# <script>alert("1")</script> ]]> &amp; %s', "</pre></body><img src=x> <!-- '")
CONTROLS = "a\x00b\x1b[31mred\x1b[0m\x07 ]]> <script>\u202ex</script> & \x1b]0;title\x07end"
CLEANED = "abred ]]> <script>x</script> & end"
SECRETS = {"password": PASSWORD}


def story_of(root: Path, run_id: str) -> Story:
    journal = Journal(root / "runs.sqlite")
    try:
        return tell(journal, root / "runs", run_id)
    finally:
        journal.close()


async def _drive(
    root: Path,
    playbook: Mapping[str, object],
    played: ReplayScript | None = None,
    replies: tuple[Reply, ...] = (),
) -> Story:
    async with lab(root, played) as it:
        run = await it.session.begin(playbook, secret_values=SECRETS, grant=["power.shutdown"])
        await run.drive()
        for reply in replies:
            run.reply(reply, by="<b>somebody</b>")
            await run.drive()
        run.release()
    return story_of(root, run.id)


def drive(
    root: Path,
    playbook: Mapping[str, object],
    played: ReplayScript | None = None,
    replies: tuple[Reply, ...] = (),
) -> Story:
    """Run a playbook on a played machine, and tell its story."""
    return asyncio.run(_drive(root, playbook, played, replies))


@pytest.fixture(scope="session")
def succeeded(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return drive(tmp_path_factory.mktemp("succeeded"), PLAYBOOK)


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return drive(tmp_path_factory.mktemp("held"), PLAYBOOK, script(panics=True))


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Held once, answered with a step more, and failed with a message full of control characters."""
    steps = [
        STEPS[0],
        {
            "name": "menu",
            "wait_for": "grub_menu",
            "action": "press_key",
            "args": {"key": "down"},
            "register": "r",
        },
        {"name": "never", "wait_for": "memtest", "timeout": 0.2},
        {
            "name": "skipped",
            "when": {"value": "r", "matches": "zzz"},
            "action": "note",
            "args": {"text": "x"},
        },
        {"name": "stop", "action": "fail", "args": {"message": CONTROLS}},
        {"name": "after", "wait_for": "shell_prompt"},
    ]
    playbook = {**PLAYBOOK, "name": "fails & <falls>", "steps": steps}
    more = {"name": "more", "action": "note", "args": {"text": "done"}}
    replies = (Reply("act", steps=[more]), Reply("amend", playbook=playbook, resume_at="skipped"))
    return drive(tmp_path_factory.mktemp("failed"), playbook, script(), replies)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Held on a screen that shows markup, whose text was registered before."""
    shown = text([*ANSWERED[:-1], *HOSTILE, "root@lab:~#"])
    played = ReplayScript(entries=(Entry(0.0, shown, serial=CONTROLS),), speed=1.0)
    steps = [
        {"name": "<script>read</script>", "wait_for": {"text": "alert"}, "register": "screen"},
        {"name": "go on ]]>", "wait_for": {"text": "never"}, "timeout": 0.2},
    ]
    return drive(
        tmp_path_factory.mktemp("hostile"), {**PLAYBOOK, "name": "<hostile>", "steps": steps}, played
    )
