"""Runs on a played machine: what is sent, what is kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.played import PASSWORD, PLAYBOOK, STEPS, lab, script

from reflexarc.drivers.replay.script import Fault
from reflexarc.playbook.state import Escalation, Outcome, Reason, RunState, Stage
from reflexarc.runs.describe import describe_escalation
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger

SECRETS = {"password": PASSWORD}

WHOLE = [
    "power.on",
    "key.down:down",
    "key.down:enter",
    *(f"key.down:{c}" for c in "root"),
    "key.down:enter",
    *(f"key.down:{'space' if c == ' ' else c}" for c in PASSWORD),
    "key.down:enter",
    *(f"key.down:{c}" for c in ("u", "n", "a", "m", "e", "space", "minus", "r")),
    "key.down:enter",
    "power.shutdown",
]


def test_a_whole_run_sends_each_thing_once(tmp_path: Path) -> None:
    async def play() -> tuple[list[str], RunState]:
        async with lab(tmp_path) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power.shutdown"])
            state = await run.drive()
            return it.sent(), state

    sent, state = asyncio.run(play())
    assert (state.outcome, state.reason) == (Outcome.SUCCEEDED, "")
    assert sent == WHOLE
    assert state.registered["kernel"]["match"] == "6.1.0-57-cloud-amd64"  # type: ignore[index]


def test_the_journal_is_the_run(tmp_path: Path) -> None:
    async def play() -> RunState:
        async with lab(tmp_path) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power.shutdown"])
            return await run.drive()

    state = asyncio.run(play())
    journal = Journal(tmp_path / "runs.sqlite")
    assert Ledger.open(journal, state.run_id).state == state
    assert [run.outcome for run in journal.runs()] == ["succeeded"]


def test_no_secret_is_written(tmp_path: Path) -> None:
    echoed = dict(PLAYBOOK, steps=[*STEPS[:5], {"name": "wrong", "wait_for": "crash_screen", "timeout": 0.2}])
    shown = {"name": "note", "action": "note", "args": {"text": "it is {{ password }}"}}

    async def play() -> Escalation | None:
        async with lab(tmp_path, script()) as it:
            steps = [
                *STEPS[:3],
                shown,
                *STEPS[3:5],
                {"name": "x", "wait_for": {"text": "zzz"}, "timeout": 0.2},
            ]
            run = await it.session.begin(dict(echoed, steps=steps), secret_values=SECRETS)
            await run.drive()
            return run.escalation

    held = asyncio.run(play())
    assert held is not None
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "runs.sqlite" for path in written)
    for path in written:
        assert PASSWORD.encode() not in path.read_bytes(), path


def test_a_frame_that_shows_a_secret_is_not_kept(tmp_path: Path) -> None:
    from tests.played import ASKED, text

    from reflexarc.drivers.replay.script import Entry, Reaction

    leak = [*ASKED[:-1], f"Password: {PASSWORD}", "permission denied"]
    base = script()
    reactions = [r for r in base.reactions if r.key != "enter"]
    reactions += [r for r in base.reactions if r.key == "enter"][:2]
    reactions.append(Reaction((Entry(0.02, text(leak)),), key="enter"))

    async def play() -> dict[str, object]:
        async with lab(tmp_path, script(reactions=tuple(reactions))) as it:
            steps = [*STEPS[:5], {"name": "x", "wait_for": {"text": "denied"}, "register": "r"},
                     {"name": "y", "wait_for": {"text": "zzz"}, "timeout": 0.3}]  # fmt: skip
            run = await it.session.begin(dict(PLAYBOOK, steps=steps), secret_values=SECRETS)
            await run.drive()
            assert run.escalation is not None
            return describe_escalation(run.state, run.escalation)

    said = asyncio.run(play())
    assert said["reason"] == "timeout"
    assert said["frame"] is None
    assert "********" in str(said["text"])
    assert PASSWORD not in json.dumps(said)


class TestFaults:
    def held(self, tmp_path: Path, **faults: tuple[Fault | None, ...]) -> tuple[list[str], Escalation]:
        named = {name.replace("_", "."): fault for name, fault in faults.items()}

        async def play() -> tuple[list[str], Escalation]:
            async with lab(tmp_path, script(faults=named)) as it:
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power.shutdown"])
                await run.drive()
                assert run.escalation is not None
                return it.sent(), run.escalation

        return asyncio.run(play())

    def test_the_device_says_no(self, tmp_path: Path) -> None:
        sent, held = self.held(tmp_path, power_shutdown=(Fault.REJECT,))
        assert (held.reason, held.step_name) == (Reason.ACTION_FAILED, "down")
        assert "the script rejects power.shutdown" in held.detail
        assert "power.shutdown" not in sent

    def test_delivery_unknown_is_asked_about(self, tmp_path: Path) -> None:
        sent, held = self.held(tmp_path, power_shutdown=(Fault.LOSE_AFTER,))
        assert held.reason is Reason.CONNECTION_LOST
        assert sent.count("power.shutdown") == 1

    def test_a_plain_key_of_unknown_delivery_is_not_repeated(self, tmp_path: Path) -> None:
        # The third batch of keys is Enter at the boot menu going down; the machine got it.
        faults = {"keyboard.send": (None, None, Fault.LOSE_AFTER)}

        async def play() -> tuple[list[str], RunState]:
            async with lab(tmp_path, script(faults=faults)) as it:
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power.shutdown"])
                state = await run.drive()
                return it.sent(), state

        sent, state = asyncio.run(play())
        assert state.outcome is Outcome.SUCCEEDED
        assert sent == WHOLE
        assert [warning.split(":")[0] for warning in state.warnings] == ["boot"]


class TestPressUntil:
    def run(self, tmp_path: Path, **args: object) -> tuple[list[str], RunState]:
        step = {
            "name": "pick",
            "wait_for": "grub_menu",
            "action": "press_until",
            "args": {"key": "down", **args},
        }
        played = {"name": "x", "steps": [STEPS[0], step]}

        async def play() -> tuple[list[str], RunState]:
            async with lab(tmp_path) as it:
                run = await it.session.begin(played)
                state = await run.drive()
                return it.sent(), state

        return asyncio.run(play())

    def test_it_stops_where_it_should(self, tmp_path: Path) -> None:
        until = {"text": "Debian GNU/Linux$", "highlighted": True}
        sent, state = self.run(tmp_path, until=until)
        assert (sent, state.outcome) == (["power.on", "key.down:down"], Outcome.SUCCEEDED)

    def test_it_presses_nothing_where_it_holds_already(self, tmp_path: Path) -> None:
        sent, state = self.run(tmp_path, until={"text": "serial console", "highlighted": True})
        assert (sent, state.outcome) == (["power.on"], Outcome.SUCCEEDED)

    def test_it_ends(self, tmp_path: Path) -> None:
        sent, state = self.run(tmp_path, until="memtest", max=2)
        assert sent == ["power.on", "key.down:down", "key.down:down"]
        assert state.escalation is not None
        assert (state.escalation.reason, "2 times" in state.escalation.detail) == (Reason.ACTION_FAILED, True)


def test_a_drive_that_was_cut_off_in_an_act_looks_before_it_goes_on(tmp_path: Path) -> None:
    steps = [
        STEPS[0],
        {"name": "off", "action": "shutdown", "destructive": True, "wait_for": "grub_menu"},
    ]
    hangs = script(faults={"power.shutdown": (Fault.HANG,)})

    async def play() -> None:
        async with lab(tmp_path, hangs) as it:
            run = await it.session.begin(dict(PLAYBOOK, vars={}, steps=steps), grant=["power.shutdown"])
            driving = asyncio.ensure_future(run.drive())
            while "power.shutdown" not in it.sent():
                assert not driving.done()
                await it.session.watcher.next(it.session.watcher.latest, 0.05)
            driving.cancel()
            await asyncio.wait({driving})
            assert run.state.stage is Stage.ACTING
            state = await run.drive()
            assert state.escalation is not None
            assert state.escalation.reason is Reason.INTERRUPTED
            assert it.sent().count("power.shutdown") == 1

    asyncio.run(play())


def test_asking_who_drives_a_run_takes_nothing(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from reflexarc.runs.ownership import is_driven, run_lock

    lock = run_lock(tmp_path, "run-1")
    lock.acquire()
    lock.release()
    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(lambda _: is_driven(tmp_path, "run-1"), range(400)))
    lock.acquire()
    assert is_driven(tmp_path, "run-1")
    assert lock.holder() is None
    lock.release()


def test_the_journal_stays_small_however_often_the_screen_changes(tmp_path: Path) -> None:
    async def play() -> int:
        async with lab(tmp_path) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power.shutdown"])
            await run.drive()
            bodies = it.session.journal._db.execute("SELECT SUM(length(body)) FROM events WHERE number > 0")
            return int(bodies.fetchone()[0])

    assert asyncio.run(play()) < 60_000
