"""Replies to runs that some process drives, has just left, or doesn't drive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.mcp_lab import HELD, UP, write_lab

from reflexarc.errors import RunError
from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session
from reflexarc.inventory.replying import ending, give, given_already, taken_up
from reflexarc.playbook.state import Stage
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.ownership import is_driven
from reflexarc.runs.replies import Reply, record_reply
from reflexarc.runs.run import Run

ENDED: list[str] = []


async def at_end(run_id: str) -> None:
    ENDED.append(run_id)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ENDED.clear()


def replying(kind: str, then: Callable[[], None] = lambda: None) -> Callable[[Ledger], None]:
    def record(ledger: Ledger) -> None:
        given = {"playbook": UP, "resume_at": 0} if kind == "amend" else {}
        record_reply(ledger, Reply(kind, **given), by="a test")  # type: ignore[arg-type]
        then()

    return record


def with_held(folder: Path, use: Callable[[Run, Ledger], object]) -> None:
    async def ask() -> None:
        entry = entries.load(write_lab(folder)).entry("lab")
        async with open_session(entry) as session:
            run = await session.begin(HELD)
            await run.drive()
            await use(run, Ledger.open(session.journal, run.id))  # type: ignore[misc]

    asyncio.run(ask())


@pytest.mark.parametrize(("kind", "ended"), [("amend", []), ("abort", ["it"])])
def test_a_driver_that_leaves_leaves_its_run_to_whoever_answered(
    tmp_path: Path, kind: str, ended: list[str]
) -> None:
    async def use(run: Run, ledger: Ledger) -> None:
        left = await give(ledger, replying(kind, run.release), at_end if kind == "abort" else None)
        assert left is (None if ended else given_already)
        assert [run.id] * len(ended) == ENDED

    with_held(tmp_path, use)


def test_a_driver_that_stays_goes_on_itself(tmp_path: Path) -> None:
    async def use(run: Run, ledger: Ledger) -> None:
        assert await give(ledger, replying("amend"), None) is None
        assert (ENDED, ledger.state.stage) == ([], Stage.WAITING)
        run.release()

    with_held(tmp_path, use)


def test_a_run_that_nobody_drives_is_answered_on_its_machine(tmp_path: Path) -> None:
    async def use(run: Run, ledger: Ledger) -> None:
        run.release()
        record = replying("amend")
        assert await give(ledger, record, None) is record
        assert ledger.state.stage is Stage.HELD

    async def go_on(folder: Path) -> None:
        entry = entries.load(folder / "reflexarc.toml").entry("lab")
        async with open_session(entry) as session:
            (found,) = session.journal.runs()
            again = taken_up(session, found.run_id, replying("amend"))
            assert (await again.drive()).outcome == "succeeded"
            again.release()
            with pytest.raises(RunError, match="has ended"):
                taken_up(session, found.run_id, replying("resume"))
            assert not is_driven(session.runs, found.run_id)

    with_held(tmp_path, use)
    asyncio.run(go_on(tmp_path))


def test_an_end_needs_no_machine_and_no_inventory(tmp_path: Path) -> None:
    async def use(run: Run, ledger: Ledger) -> None:
        run.release()
        (tmp_path / "reflexarc.toml").unlink()
        gone = ending(ledger.journal.summary(run.id))
        assert await give(ledger, replying("abort"), gone) is None
        assert ledger.state.outcome == "aborted"

    with_held(tmp_path, use)
