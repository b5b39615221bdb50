"""Statistics across runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.played import PASSWORD, PLAYBOOK, lab, script

from reflexarc.errors import PlaybookError
from reflexarc.runs.journal import Journal
from reflexarc.runs.stats import Group, stats
from reflexarc.runs.telemetry import StepTime, Telemetry

SECRETS = {"password": PASSWORD}
FAILS = {"name": "fails", "steps": [{"name": "stop", "action": "fail", "args": {"message": "no"}}]}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """A run that succeeded, two that failed, one that is held; the last of a machine with two drivers."""
    root = tmp_path_factory.mktemp("stats")

    async def play() -> None:
        async with lab(root, script()) as it:
            for playbook in (PLAYBOOK, FAILS, FAILS):
                secrets = SECRETS if playbook is PLAYBOOK else None
                run = await it.session.begin(playbook, secret_values=secrets, grant=["power.shutdown"])
                await run.drive()
                run.release()
        async with lab(root, script(panics=True)) as it:
            session = replace(it.session, drivers=("pikvm", "redfish"))
            run = await session.begin(PLAYBOOK, secret_values=SECRETS)
            await run.drive()
            run.release()

    asyncio.run(play())
    return Journal(root / "runs.sqlite")


def groups(journal: Journal, by: str) -> dict[str, Group]:
    return {group.name: group for group in stats(journal, journal.path.parent / "runs", by)}


def test_by_playbook(journal: Journal) -> None:
    found = groups(journal, "playbook")
    assert {name: dict(group.outcomes) for name, group in found.items()} == {
        "fails": {"failed": 2},
        "played": {"succeeded": 1, "held": 1},
    }
    played = found["played"].as_dict()
    assert played["escalations"] == {"off_script": 1}
    assert played["runs"] == 2
    assert played["median_seconds"] == played["p90_seconds"] == round(found["played"].seconds[0], 3)
    assert 0.5 < found["played"].seconds[0] < 60
    assert found["fails"].as_dict()["median_seconds"] is None


def test_by_machine_and_by_driver(journal: Journal) -> None:
    assert {name: group.runs for name, group in groups(journal, "machine").items()} == {"lab": 4}
    by_driver = {name: dict(group.outcomes) for name, group in groups(journal, "driver").items()}
    assert by_driver == {
        "unknown": {"succeeded": 1, "failed": 2},
        "pikvm": {"held": 1},
        "redfish": {"held": 1},
    }


def test_reads_of_earlier_runs_in_a_session_are_not_counted_again(journal: Journal) -> None:
    found = groups(journal, "playbook")
    assert sum(found["fails"].total.reads.values()) < sum(found["played"].total.reads.values()) / 2


@pytest.mark.parametrize(
    ("count", "middle", "slow"), [(1, 1, 1), (2, 1.5, 2), (10, 5.5, 9), (11, 6, 10), (100, 50.5, 90)]
)
def test_median_and_p90(count: int, middle: float, slow: float) -> None:
    group = Group("x")
    for n in reversed(range(count)):
        group.add("succeeded", Telemetry(steps=[StepTime("a", waiting=n, acting=1.0, held=1000.0)]))
    group.add("failed", Telemetry(steps=[StepTime("a", waiting=9_999)]))
    assert (group.median, group.p90) == (middle, slow)


def test_a_refused_run_is_not_counted(journal: Journal, tmp_path: Path) -> None:
    async def play() -> None:
        async with lab(tmp_path) as it:
            with pytest.raises(PlaybookError):
                await it.session.begin(PLAYBOOK)

    asyncio.run(play())
    assert stats(Journal(tmp_path / "runs.sqlite"), tmp_path / "runs", "playbook") == []
