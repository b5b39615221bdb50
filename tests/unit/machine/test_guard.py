"""What the guard lets pass, in which order, and what it writes down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import ReplayGuest, ReplayScript
from reflexarc.errors import JournalError, MachineError, SafetyError
from reflexarc.machine.capabilities import BootDevice, Command, Exited, PowerState
from reflexarc.machine.guard import Guard, Permit
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import CLASSES, OPERATIONS, Policy, covers
from reflexarc.runs.secrets import Redactor

Line = Mapping[str, object]


def machine(guard: Guard) -> tuple[Machine, list[str]]:
    lent = open_replay(ReplayScript(power=PowerState.ON), machine="lab")
    return Machine("lab", lent, guard), [f"{s.operation}" for s in lent.sent]


policies = st.lists(st.sampled_from([*CLASSES, *OPERATIONS, "*", "power.*"]), max_size=4).map(tuple)


@given(policies, policies)
def test_within_is_what_both_allow(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    both = Policy(first, second).within(Policy(second, first))
    for operation in OPERATIONS:
        expected = covers(first, operation) and covers(second, operation)
        assert covers(both.people, operation) is expected
        assert covers(both.agents, operation) is expected


def test_readings_too_pass_the_policy() -> None:
    async def run() -> None:
        it, _ = machine(Guard("lab", Policy(agents=("input",)), agent=True))
        readings = (it.power.state, it.console.read, it.media.inserted, it.boot.setting, it.snapshot.saved,
                    it.freeze.frozen, it.screen.screenshot)  # fmt: skip
        for reading in readings:
            with pytest.raises(SafetyError, match="does not allow observe") as caught:
                await reading()
            assert caught.value.rule == "allow.agents"

    asyncio.run(run())


def test_a_repeated_reading_is_one_line() -> None:
    lines: list[Line] = []

    async def run() -> None:
        it, _ = machine(Guard("lab", Policy(), audit=lines.append))
        for _ in range(3):
            await it.power.state()
        await it.boot.setting()

    asyncio.run(run())
    assert [line["operation"] for line in lines] == ["observe.power", "observe.boot"]


def test_a_dry_run_sends_nothing_at_all() -> None:
    async def run() -> None:
        lent = open_replay(ReplayScript(power=PowerState.ON), machine="lab")
        it = Machine("lab", lent, Guard("lab", Policy(), granted=["*"], dry_run=True))
        acts: list[Callable[[], Awaitable[None]]] = [
            it.power.on, it.power.off, it.power.reset, it.power.cycle, it.power.shutdown, it.media.eject,
            it.freeze.freeze, it.freeze.thaw,
            lambda: it.keyboard.press("a"), lambda: it.keyboard.down("a"), lambda: it.keyboard.type("a"),
            lambda: it.console.write("a"), lambda: it.media.insert("x.iso"), lambda: it.snapshot.save("a"),
            lambda: it.snapshot.restore("a"), lambda: it.snapshot.delete("a"), lambda: it.pointer.move(1, 1),
            lambda: it.pointer.click(1, 1), lambda: it.pointer.drag(1, 1, 2, 2), lambda: it.pointer.scroll(0, 1),
            lambda: it.boot.set(BootDevice.DISK),
        ]  # fmt: skip
        for act in acts:
            with pytest.raises(SafetyError) as caught:
                await act()
            assert caught.value.rule == "dry_run"
        assert lent.sent == []

    asyncio.run(run())


def test_a_log_that_cannot_be_written_lets_nothing_pass() -> None:
    def full(line: Line) -> None:
        raise JournalError("can't write the audit log: No space left on device", path=Path("audit.jsonl"))

    async def run() -> None:
        lent = open_replay(ReplayScript(power=PowerState.ON), machine="lab")
        guard = Guard("lab", Policy(), granted=["power.reset"], audit=full)
        it = Machine("lab", lent, guard)
        for act in (it.power.reset, it.power.on, lambda: it.keyboard.press("a")):
            with pytest.raises(JournalError):
                await act()
        assert (lent.sent, guard.sends) == ([], 0)

    asyncio.run(run())


def test_the_log_has_what_was_run_without_the_secrets_of_the_run() -> None:
    lines: list[Line] = []

    async def run() -> None:
        lent = open_replay(ReplayScript(guest=ReplayGuest()), machine="lab")
        guard = Guard("lab", Policy(), audit=lines.append)
        shell = Machine("lab", lent, guard).shell
        with guard.acting_for(Redactor(["it's open"]).text, run="7", step="run"):
            for command in (
                Command("echo it's open"),
                Command(argv=("echo", "it's open"), env={"PW": "it's open"}),
            ):
                async with aclosing(shell.run(command)) as said:
                    assert [type(piece) async for piece in said][-1] is Exited
        async with aclosing(shell.run(Command("x" * 9_000))) as said:
            assert [piece async for piece in said]

    asyncio.run(run())
    assert [line["command"] for line in lines] == ["echo ********", ["echo", "********"], "x" * 9_000]
    assert [line["env"] for line in lines] == [[], ["PW"], []]


def test_a_permit_is_for_one_act_with_its_arguments_on_fresh_evidence() -> None:
    now = 100.0
    lines: list[Line] = []
    guard = Guard("lab", Policy(), clock=lambda: now, audit=lines.append)
    image = {"source": "/images/a.iso"}
    with guard.permit(Permit("media.mount", 99.0, "run 7", "grub_menu", image)):
        with pytest.raises(SafetyError, match="arguments are others"):
            guard.check("media.mount", source="/images/b.iso")
        with pytest.raises(SafetyError, match="nobody granted it"):
            guard.check("media.eject")
        with guard.acting_for(run="7", step="mount"):
            guard.check("media.mount", **image)
        with pytest.raises(SafetyError, match="nobody granted it"):
            guard.check("media.mount", **image)
    with guard.permit(Permit("power.off", 97.9, "run 7")), pytest.raises(SafetyError, match="older than 2 s"):
        guard.check("power.off")
    passed = [line for line in lines if line["allowed"]]
    assert passed == [
        {
            "machine": "lab", "operation": "media.mount", "who": "person", "allowed": True, "why": "run 7",
            "run": "7", "step": "mount", "evidence": "grub_menu", "age": 1.0, **image,
        }
    ]  # fmt: skip
    assert [line["why"] for line in lines if not line["allowed"]] == [
        "other_arguments", "no_grant", "no_grant", "stale_evidence",
    ]  # fmt: skip


def test_preflight_comes_before_a_destructive_direct_call_and_only_there() -> None:
    asked: list[str] = []
    lines: list[Line] = []

    async def fails() -> None:
        asked.append("preflight")
        raise MachineError("preflight: screen: no signal", machine="lab")

    async def run() -> None:
        lent = open_replay(ReplayScript(power=PowerState.ON), machine="lab")
        guard = Guard("lab", Policy(), granted=["power.reset"], audit=lines.append, preflight=fails)
        it = Machine("lab", lent, guard)
        with pytest.raises(MachineError, match="no signal"):
            await it.power.reset()
        with pytest.raises(MachineError, match="no signal"):
            await it.keyboard.press("ctrl+alt+delete")
        assert (lent.sent, asked) == ([], ["preflight"] * 2)
        with pytest.raises(SafetyError):
            await it.power.off()
        await it.keyboard.press("a")
        with guard.acting_for(run="7"), guard.permit(Permit("power.off", guard.clock(), "a run")):
            await it.power.off()
            with pytest.raises(SafetyError, match="nobody granted it"):
                await it.power.reset()
        assert asked == ["preflight"] * 2

    asyncio.run(run())
    assert [line["why"] for line in lines] == [
        "preflight",
        "preflight",
        "no_grant",
        "policy",
        "a run",
        "no_grant",
    ]


def test_an_image_is_decided_on_by_where_its_path_leads(tmp_path: Path) -> None:
    (tmp_path / "real.iso").write_bytes(b"x")
    (tmp_path / "link.iso").symlink_to(tmp_path / "real.iso")
    lines: list[Line] = []

    async def run() -> str | None:
        it, _ = machine(Guard("lab", Policy(), granted=["media"], audit=lines.append))
        await it.media.insert(str(tmp_path / "sub" / ".." / "link.iso"))
        return await it.media.inserted()

    assert asyncio.run(run()) == str(tmp_path / "real.iso")
    assert lines[0]["source"] == str(tmp_path / "real.iso")
