"""Runs on a played machine: what is sent, what is asked, what is kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.played import PANIC, PASSWORD, PLAYBOOK, STEPS, lab, script

from reflexarc.drivers.replay.script import Fault
from reflexarc.errors import (
    CapabilityError,
    MachineBusyError,
    OffScriptError,
    OperationTimeoutError,
    PlaybookError,
    RunError,
    SafetyError,
)
from reflexarc.machine.lock import MachineLock
from reflexarc.playbook.state import Escalation, Outcome, Reason, RunState, Stage
from reflexarc.runs.describe import describe_escalation
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply, record_reply

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


class TestRefused:
    """What is refused before a run begins sends nothing and starts no run."""

    @pytest.mark.parametrize(
        ("more", "arguments", "error", "says"),
        [
            ({}, {}, PlaybookError, "needs the variable password"),
            ({}, {"secret_values": {"password": "x"}}, Exception, "fewer than 3 characters"),
            ({}, {"variables": {"password": "abcdef"}}, PlaybookError, "never with --var"),
            ({}, {"variables": {"nmae": "x"}, "secret_values": SECRETS}, PlaybookError, "no variable 'nmae'"),
            ({}, {"grant": ["power.rest"], "secret_values": SECRETS}, PlaybookError, "power.reset"),
        ],
    )
    def test_before_it_begins(
        self,
        tmp_path: Path,
        more: dict[str, object],
        arguments: dict[str, object],
        error: type[Exception],
        says: str,
    ) -> None:
        async def play() -> None:
            async with lab(tmp_path) as it:
                with pytest.raises(error, match=says):
                    await it.session.begin({**PLAYBOOK, **more}, **arguments)  # type: ignore[arg-type]
                assert it.sent() == []
                assert it.session.journal.runs() == []

        asyncio.run(play())

    def test_a_machine_in_use(self, tmp_path: Path) -> None:
        async def play() -> None:
            other = MachineLock(tmp_path / "lab.lock", "lab", "the night's tests")
            other.acquire()
            async with lab(tmp_path) as it:
                with pytest.raises(MachineBusyError, match="in use by the night's tests"):
                    await it.session.begin(PLAYBOOK, secret_values=SECRETS)
                assert it.sent() == []

        asyncio.run(play())

    def test_a_second_run_beside_a_held_one(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path, script(panics=True)) as it:
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
                await run.drive()
                with pytest.raises(RunError, match=f"run {run.id} .* is held"):
                    await it.session.begin(PLAYBOOK, secret_values=SECRETS)

        asyncio.run(play())

    def test_a_missing_capability(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path) as it:
                it.session.machine.offers = ("power",)
                with pytest.raises(CapabilityError, match="keyboard"):
                    await it.session.begin(PLAYBOOK, secret_values=SECRETS)

        asyncio.run(play())


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
        assert "rejected by the script" in held.detail or "rejects" in held.detail
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


def test_a_direct_key_beside_a_held_run_is_told_to_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
            await run.drive()
            before = run.state.sent_at
            await it.session.keyboard.press("a")
            assert Ledger.open(it.session.journal, run.id).state.sent_at > before
            run.reply(Reply("resume"))
            state = await run.drive()
            assert state.escalation is not None
            assert state.escalation.id == 2

    asyncio.run(play())


class TestSession:
    def test_wait_for_and_press(self, tmp_path: Path) -> None:
        async def play() -> list[str]:
            async with lab(tmp_path) as it:
                await it.session.power.on()
                seen = await it.session.wait_for("grub_menu")
                assert seen.phase == "grub_menu"
                await it.session.keyboard.press("enter")
                await it.session.wait_for(["login_prompt", "shell_prompt"])
                return it.sent()

        assert asyncio.run(play()) == ["power.on", "key.down:enter"]

    def test_a_wait_in_vain(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path) as it:
                with pytest.raises(
                    OperationTimeoutError, match="waited for grub_menu in vain; it shows power_off"
                ):
                    await it.session.wait_for("grub_menu", timeout=0.2)

        asyncio.run(play())

    def test_a_wait_that_meets_a_panic(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path, script(panics=True)) as it:
                await it.session.power.on()
                await it.session.wait_for("grub_menu")
                await it.session.keyboard.press("enter")
                with pytest.raises(OffScriptError) as caught:
                    await it.session.wait_for("login_prompt")
                assert (caught.value.reason, caught.value.phase) == ("off_script", "crash_screen")

        asyncio.run(play())

    def test_what_was_seen_counts_again_only_after_a_change(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path) as it:
                await it.session.power.on()
                await it.session.wait_for("grub_menu")
                await it.session.wait_for("grub_menu", timeout=0.5)
                await it.session.keyboard.press("a")
                with pytest.raises(OperationTimeoutError):
                    await it.session.wait_for("grub_menu", timeout=0.5)

        asyncio.run(play())

    def test_nothing_destructive_without_a_grant(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path) as it:
                await it.session.power.on()
                for act in (
                    it.session.power.reset(),
                    it.session.power.off(),
                    it.session.power.cycle(),
                    it.session.power.shutdown(),
                    it.session.keyboard.press("ctrl+alt+delete"),
                    it.session.keyboard.press("alt+sysrq+b"),
                ):
                    with pytest.raises(SafetyError, match="nobody granted it"):
                        await act
                await it.session.keyboard.down("ctrl")
                await it.session.keyboard.down("alt")
                with pytest.raises(SafetyError, match=r"power\.reset"):
                    await it.session.keyboard.press("delete")
                assert it.sent() == ["power.on", "key.down:ctrl", "key.down:alt"]

        asyncio.run(play())

    def test_the_owner_s_policy_binds_people_too(self, tmp_path: Path) -> None:
        async def play() -> None:
            async with lab(tmp_path, people=["observe"]) as it:
                with pytest.raises(SafetyError, match=r"allow\.people"):
                    await it.session.keyboard.press("a")
                assert it.sent() == []

        asyncio.run(play())


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
    assert not lock.held_by_another()
    lock.release()


def test_keys_that_another_program_left_down_make_no_chord(tmp_path: Path) -> None:
    from reflexarc.drivers.replay.driver import open_replay
    from reflexarc.machine.guard import Guard
    from reflexarc.machine.keyboard import GuardedKeyboard, KeysDown
    from reflexarc.machine.policy import Policy

    lent = open_replay(script(), machine="lab")
    assert lent.keyboard is not None
    kept = KeysDown(tmp_path / "keys-down")

    def keyboard() -> GuardedKeyboard:
        assert lent.keyboard is not None
        return GuardedKeyboard(lent.keyboard, Guard("lab", Policy()), "us", kept)

    async def play() -> None:
        first = keyboard()
        await first.down("ctrl")
        await first.down("alt")
        await keyboard().press("delete")
        await keyboard().press("a")

    asyncio.run(play())
    assert [f"{s.operation}:{s.detail}" for s in lent.sent] == [
        "key.down:ctrl", "key.down:alt", "key.up:alt", "key.up:ctrl", "key.down:delete", "key.up:delete",
        "key.down:a", "key.up:a",
    ]  # fmt: skip


def test_a_text_cannot_finish_a_chord(tmp_path: Path) -> None:
    async def play() -> None:
        async with lab(tmp_path) as it:
            await it.session.keyboard.down("alt")
            await it.session.keyboard.down("sysrq")
            with pytest.raises(SafetyError, match=r"power\.reset"):
                await it.session.keyboard.type("cab")
            assert it.sent() == ["key.down:alt", "key.down:sysrq"]

    asyncio.run(play())


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


def test_the_journal_stays_small_however_often_the_screen_changes(tmp_path: Path) -> None:
    async def play() -> int:
        async with lab(tmp_path) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power.shutdown"])
            await run.drive()
            bodies = it.session.journal._db.execute("SELECT SUM(length(body)) FROM events WHERE number > 0")
            return int(bodies.fetchone()[0])

    assert asyncio.run(play()) < 60_000
