"""Calls on runs that are refused have done nothing: none is begun or answered whose record the caller can't have."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_lab import HELD, audited, inside, refused, says_yes, values, write_lab

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session
from reflexarc.inventory.places import places
from reflexarc.machine.policy import RECORDED
from reflexarc.runs.journal import Journal

PRESSES: dict[str, Any] = {"name": "a", "action": "press_key", "args": {"key": "a"}}
NOTES: dict[str, Any] = {"name": "n", "steps": [{"name": "n", "action": "note", "args": {"text": "x"}}]}
ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("reply_escalation", {"escalation_id": 1, "reply": "resume"}),
    ("reply_escalation", {"escalation_id": 1, "reply": "act", "steps": [PRESSES]}),
    ("reply_escalation", {"escalation_id": 1, "reply": "amend", "playbook": NOTES, "resume_at": 0}),
    ("reply_escalation", {"escalation_id": 1, "reply": "teach", "phase": "mine", "text": "x"}),
    ("reply_escalation", {"escalation_id": 1, "reply": "abort"}),
    ("cancel_run", {}),
]


def stage(run_id: str) -> tuple[str, int]:
    """How a run stands in the journal, and how many events it has."""
    with closing(Journal(places().journal)) as journal:
        return journal.summary(run_id).outcome, len(journal.read(run_id).events)


@pytest.mark.parametrize("missing", RECORDED)
def test_who_may_not_read_a_run_begins_and_answers_none(tmp_path: Path, missing: str) -> None:
    inventory = write_lab(tmp_path, "input", "power.on", *(one for one in RECORDED if one != missing))

    async def ask() -> None:
        async with open_session(entries.load(inventory).entry("desk"), holder="a person") as session:
            run = await session.begin(HELD, by="a person")
            await run.drive()
            run.release()
        stood = stage(run.id)
        # A client whose person accepts makes each call once more.
        async with inside(inventory, asked=says_yes) as client:
            begun = {"machine": "desk", "playbook": {"name": "types", "steps": [PRESSES]}, "wait": 20}
            assert (await refused(client, "run_playbook", **begun))["operation"] == missing
            for tool, more in ANSWERS:
                assert (await refused(client, tool, run_id=run.id, **more))["operation"] == missing
        assert stage(run.id) == stood
        with closing(Journal(places().journal)) as journal:
            assert [one.run_id for one in journal.runs()] == [run.id]

    asyncio.run(ask())
    assert audited("keyboard.press") == []


@pytest.mark.parametrize("driven", [False, True], ids=["left", "driven"])
def test_a_dry_run_answers_no_run_that_is_meant_in_earnest(tmp_path: Path, driven: bool) -> None:
    inventory = write_lab(tmp_path, "*")

    async def ask() -> None:
        async with open_session(entries.load(inventory).entry("desk"), holder="a person") as session:
            run = await session.begin(HELD, by="a person")
            await run.drive()
            if not driven:
                run.release()
            stood = stage(run.id)
            async with inside(inventory, dry_run=True) as client:
                for tool, more in ANSWERS:
                    failed = await refused(client, tool, run_id=run.id, **more)
                    assert failed["rule"] == "dry_run"
            assert stage(run.id) == stood
            run.release()

    asyncio.run(ask())
    assert audited("keyboard.press") == []


def test_a_dry_run_answers_its_own(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "*")

    async def ask() -> None:
        async with inside(inventory, dry_run=True) as client:
            ran = await values(client, "run_playbook", machine="desk", playbook=HELD, wait=20)
            tool, more = ANSWERS[2]
            assert (await values(client, tool, run_id=ran["run_id"], wait=20, **more))[
                "outcome"
            ] == "succeeded"

    asyncio.run(ask())
