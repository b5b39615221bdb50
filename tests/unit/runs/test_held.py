"""Runs of a played machine that are held: what they ask, and what answers them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.played import PANIC, PASSWORD, PLAYBOOK, STEPS, lab, script

from reflexarc.errors import (
    MachineBusyError,
    PlaybookError,
    RunError,
)
from reflexarc.playbook.state import Escalation, Outcome, Reason, RunState, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply, record_reply

SECRETS = {"password": PASSWORD}


def test_a_panic_holds_and_an_amendment_finishes(tmp_path: Path) -> None:
    recover = {
        "name": "recovered",
        "vars": PLAYBOOK["vars"],
        "authorize": PLAYBOOK["authorize"],
        "steps": [
            {"name": "reset", "wait_for": "crash_screen", "action": "reset", "destructive": True},
            *STEPS[1:],
        ],
    }
    asked: list[Escalation] = []

    async def answer(held: Escalation) -> Reply:
        asked.append(held)
        return Reply("amend", playbook=recover, resume_at="reset", grant=["power.reset", "power.shutdown"])

    async def play() -> tuple[list[str], RunState]:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
            state = await run.drive(answer)
            return it.sent(), state

    sent, state = asyncio.run(play())
    assert state.outcome is Outcome.SUCCEEDED
    assert sent.count("power.reset") == 1
    assert [(held.reason, held.observed_phase, held.step_name) for held in asked] == [
        (Reason.OFF_SCRIPT, "crash_screen", "user")
    ]
    assert PANIC[0] in asked[0].text


class TestReplies:
    @pytest.mark.parametrize(
        ("reply", "says"),
        [
            (Reply("amend", playbook={"name": "x", "steps": []}), "at least one step"),
            (
                Reply("amend", playbook={"name": "x", "steps": [{"name": "a", "action": "explode"}]}),
                "explode",
            ),
            (Reply("amend"), "needs a playbook"),
            (Reply("amend", playbook=dict(PLAYBOOK, vars={}), resume_at="nowhere"), "nowhere"),
            (Reply("amend", playbook=dict(PLAYBOOK, vars={}), resume_at=99), "steps 0 to"),
            (Reply("act", steps=[{"name": "user", "action": "power_on"}]), "already"),
            (Reply("act", steps=[]), "list of steps"),
            (Reply("act", steps=[{"name": "r", "action": "reset"}]), "destructive: true"),
            (Reply("explode"), "there is no reply"),
            (Reply("resume", grant=["everything"]), "there is no operation"),
        ],
    )
    def test_a_bad_one_leaves_the_run_held(self, tmp_path: Path, reply: Reply, says: str) -> None:
        async def play() -> None:
            async with lab(tmp_path, script(panics=True)) as it:
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
                before = await run.drive()
                sent = it.sent()
                with pytest.raises(PlaybookError, match=says):
                    run.reply(reply)
                assert run.state == before
                assert it.sent() == sent
                assert Ledger.open(it.session.journal, run.id).state.stage is Stage.HELD

        asyncio.run(play())

    def test_a_stale_or_second_one_is_refused(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path, script(panics=True)) as it:
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
                await run.drive()
                with pytest.raises(RunError, match="stale"):
                    run.reply(Reply("resume"), escalation_id=7)
                other = Ledger.open(it.session.journal, run.id)
                record_reply(other, Reply("abort", reason="enough"), escalation_id=1)
                with pytest.raises(RunError, match="has ended"):
                    run.reply(Reply("resume"))

        asyncio.run(play())

    def test_another_process_s_reply_is_taken_up(self, tmp_path: Path) -> None:
        async def play() -> RunState:
            async with lab(tmp_path, script(panics=True)) as it:
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
                await run.drive()
                waiting = asyncio.ensure_future(run.wait_for_reply())
                await asyncio.sleep(0)
                elsewhere = Journal(tmp_path / "runs.sqlite")
                record_reply(Ledger.open(elsewhere, run.id), Reply("abort", reason="enough"))
                await waiting
                return await run.drive()

        assert asyncio.run(play()).outcome is Outcome.ABORTED


def test_only_one_of_two_processes_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
            await run.drive()
            first, second = (Ledger.open(Journal(tmp_path / "runs.sqlite"), run.id) for _ in range(2))
            first.take_up()
            with pytest.raises(RunError, match="another process"):
                second.take_up()
            with pytest.raises(MachineBusyError):
                it.session.take_up(run.id, secret_values=SECRETS)

    asyncio.run(play())


def test_a_reply_in_the_first_moment_of_a_hold_is_driven_on(tmp_path: Path) -> None:
    async def play() -> RunState:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
            driving = asyncio.ensure_future(run.drive())
            elsewhere = Journal(tmp_path / "runs.sqlite")
            while not elsewhere.runs(stage=Stage.HELD):
                assert not driving.done()
                await it.session.watcher.next(it.session.watcher.latest, 0.01)
            record_reply(Ledger.open(elsewhere, run.id), Reply("abort", reason="enough"))
            return await driving

    assert asyncio.run(play()).outcome is Outcome.ABORTED


def test_a_reply_cannot_put_a_result_in_a_variable_s_place(tmp_path: Path) -> None:
    playbook = dict(PLAYBOOK, vars={"password": {"secret": True}, "cmd": "ls"})
    steps = [{"name": "r", "wait_for": {"text": ".*"}, "register": "cmd"}]

    async def play() -> None:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(playbook, secret_values=SECRETS)
            await run.drive()
            for reply in (Reply("act", steps=steps), Reply("amend", playbook={"name": "x", "steps": steps})):
                with pytest.raises(PlaybookError, match="variable"):
                    run.reply(reply)

    asyncio.run(play())


def test_a_run_whose_playbook_cannot_be_read_any_more_can_be_ended(tmp_path: Path) -> None:
    import sqlite3

    from reflexarc.runs.run import abort

    async def nothing(run_id: str) -> None:
        return None

    async def play() -> None:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
            await run.drive()
            run.release()
            with sqlite3.connect(tmp_path / "runs.sqlite") as db:
                db.execute("UPDATE events SET body = replace(body, 'power_on', 'explode') WHERE number = 0")
            await it.session.keyboard.press("a")
            with pytest.raises(RunError, match="explode"):
                Ledger.open(it.session.journal, run.id)
            await abort(
                it.session.journal, tmp_path / "runs", run.id, "unreadable", by="a test", at_end=nothing
            )
            assert [found.outcome for found in it.session.journal.runs()] == ["aborted"]

    asyncio.run(play())
