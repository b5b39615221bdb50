"""A session on a played machine: what is refused before a run begins, waits, and keys of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.played import PASSWORD, PLAYBOOK, lab, script

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
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply

SECRETS = {"password": PASSWORD}


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
