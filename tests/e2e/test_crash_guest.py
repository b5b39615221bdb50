"""SIGKILL around every destructive act on a real virtual machine: none is sent twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.guests import build_cdrom
from tests.outliving import PROCESSES

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session, stop_vm
from reflexarc.inventory.places import places
from reflexarc.playbook.events import Acted, Event, Intended
from reflexarc.playbook.state import Outcome, Reason, RunState, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply

pytestmark = [pytest.mark.full, pytest.mark.guest, pytest.mark.timeout(400)]

PLAYBOOK: dict[str, object] = {
    "name": "crashes",
    "authorize": {"destructive": True, "ops": ["power"]},
    "steps": [
        {"name": "on", "wait_for": "power_off", "action": "power_on"},
        {"name": "restart", "wait_for": "grub_menu", "action": "reset", "destructive": True},
        {"name": "again", "wait_for": "grub_menu", "action": "reset", "destructive": True,
         "expect": "grub_menu", "expect_timeout": 60},
        {"name": "cut", "wait_for": "grub_menu", "action": "hard_off", "destructive": True},
        {"name": "off", "wait_for": "power_off"},
    ],
}  # fmt: skip
ACTS = ("restart", "again", "cut")
WHOLE = ["power.reset", "power.reset", "power.off"]


@dataclass(frozen=True)
class Death:
    """Dying before or after an event of a step is written."""

    place: str
    kind: type[Event]
    step: str

    def __str__(self) -> str:
        return f"{self.place} {self.kind.__name__} of {self.step}"


class MortalJournal(Journal):
    death: Death | None = None
    _step = ""

    def append(
        self, number: int, event: Event, state: RunState, *, durable: bool = False, changed: bool = True
    ) -> None:
        # After an act the state is in the next step already.
        step = self._step if isinstance(event, Acted) else state.step.name
        self._die("before", event, step)
        super().append(number, event, state, durable=durable, changed=changed)
        self._die("after", event, step)
        self._step = step

    def _die(self, place: str, event: Event, step: str) -> None:
        if self.death == Death(place, type(event), step):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Drive:
    """A process that begins the run, or takes it up with a reply."""

    inventory: Path
    state: Path
    run_id: str = ""
    reply: Reply | None = None
    death: Death | None = None

    def __call__(self) -> None:
        os.environ["REFLEXARC_STATE"] = str(self.state)
        asyncio.run(self.drive())

    async def drive(self) -> None:
        async with open_session(entries.load(self.inventory).entry("guest")) as session:
            journal = MortalJournal(places().journal)
            journal.death = self.death
            session.journal = journal
            if self.run_id:
                run = session.take_up(self.run_id)
            else:
                run = await session.begin(PLAYBOOK, grant=["power"])
            try:
                if self.reply is not None and run.escalation is not None:
                    run.reply(self.reply)
                await run.drive()
            finally:
                run.release()


def code_of(drive: Drive) -> int | None:
    process = PROCESSES.Process(target=drive)
    process.start()
    process.join()
    return process.exitcode


@dataclass
class Guest:
    drive: Drive

    def sent(self) -> list[str]:
        """The destructive operations that the guard let through, of all processes."""
        lines = (self.drive.state / "audit.jsonl").read_text().splitlines()
        calls = [json.loads(line) for line in lines]
        return [
            call["operation"]
            for call in calls
            if call["allowed"] and call["operation"] in ("power.reset", "power.off")
        ]

    def run(self) -> RunState:
        journal = Journal(self.drive.state / "runs.sqlite")
        try:
            (only,) = journal.runs()
            return Ledger.open(journal, only.run_id).state
        finally:
            journal.close()


@pytest.fixture(scope="module")
def disc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cdrom(tmp_path_factory.mktemp("disc"))


@pytest.fixture
def guest(tmp_path: Path, disc: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(
        f'[machines.guest]\ndrivers = ["qemu"]\n[machines.guest.qemu]\naccel = "tcg"\n'
        f'memory_mib = 128\ncdroms = ["{disc}"]\n'
    )
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    yield Guest(Drive(inventory, tmp_path / "state"))
    stop_vm(entries.load(inventory).entry("guest"))


def test_without_a_crash(guest: Guest) -> None:
    assert code_of(guest.drive) == 0
    state = guest.run()
    assert (state.outcome, state.reason) == (Outcome.SUCCEEDED, "")
    assert guest.sent() == WHOLE


@pytest.mark.parametrize(
    "death",
    [
        Death(place, kind, step)
        for step in ACTS
        for kind in (Intended, Acted)
        for place in ("before", "after")
    ],
    ids=str,
)
def test_a_crash(guest: Guest, death: Death) -> None:
    assert code_of(replace(guest.drive, death=death)) == -signal.SIGKILL
    was_sent = death.kind is Acted
    for _ in range(4):
        state = guest.run()
        if state.stage is Stage.ENDED:
            break
        reply = None
        if state.stage is Stage.HELD:
            assert state.escalation is not None
            assert state.escalation.reason in (Reason.INTERRUPTED, Reason.EXPECTATION_FAILED)
            done = Reply("amend", playbook=PLAYBOOK, resume_at=state.index + 1)
            reply = done if was_sent else Reply("resume", grant=["power"])
        assert code_of(replace(guest.drive, run_id=state.run_id, reply=reply)) == 0
    assert (guest.run().outcome, guest.run().reason) == (Outcome.SUCCEEDED, "")
    assert guest.sent() == WHOLE
