"""A hostile client tries to have something destructive fired that no person granted; the machines tell."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.guests import build_cdrom
from tests.played import lab, script

from reflexarc.errors import ReflexarcError
from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session, start_vm, stop_vm
from reflexarc.machine.capabilities import KeyEvent
from reflexarc.machine.chords import Board
from reflexarc.machine.policy import Policy
from reflexarc.playbook.state import Stage
from reflexarc.runs.replies import Reply
from reflexarc.runs.session import Session

Data = dict[str, object]

# All an agent could be allowed: here nothing but the want of a grant stands in its way.
EVERYTHING = Policy(("*",), ("*",))
DESTRUCTIVE = {"system_reset", "system_powerdown", "quit", "stop", "eject", "blockdev-change-medium",
               "blockdev-open-tray", "snapshot-load", "human-monitor-command", "inject-nmi"}  # fmt: skip
_KEY = {"kp_decimal": "kp_dot", "meta_l": "meta", "ret": "enter", "spc": "space"}

ON: Data = {"name": "on", "wait_for": "power_off", "action": "power_on"}
MENU: Data = {"name": "menu", "wait_for": "grub_menu"}
ALL: Data = {"destructive": True, "ops": ["power", "media", "boot", "snapshot", "step"]}


def step(action: str, **more: object) -> Data:
    return {"name": f"hostile {action}", "action": action, "destructive": True, **more}


def chord(keys: str, **more: object) -> Data:
    return step("hotkey", args={"chord": keys}, **more)


STEPS: list[Data] = [
    step("reset", wait_for="grub_menu"), step("hard_off"), step("shutdown", precondition="grub_menu"),
    step("hard_cycle", wait_for={"text": "."}), {**step("reset"), "destructive": False},
    {"name": "plain", "action": "reset"},
    chord("ctrl+alt+delete"), chord("delete+alt_r+ctrl_r"), chord("alt+sysrq+b", wait_for="grub_menu"),
    chord("Control+AltGr+Kp-Dot"), {**chord("power"), "destructive": False},
    {"name": "key", "action": "press_key", "args": {"key": "ctrl+alt+delete"}},
    {"name": "key", "action": "press_key", "args": {"key": "{{ k }}"}},
    {"name": "chord", "action": "hotkey", "args": {"chord": "{{ k }}+alt+delete"}},
    {"name": "key", "action": "press_key", "args": {"key": "power", "times": 3}},
    {"name": "until", "action": "press_until", "args": {"key": "sleep", "until": "crash_screen"}},
    {"name": "typed", "action": "type_text", "args": {"text": "{{ k }}{{ __class__ }}"}},
    {"name": "mount", "action": "mount_iso", "args": {"source": "/etc/passwd"}, "destructive": True},
    {"name": "back", "action": "rollback", "args": {"name": "x; system_reset"}, "destructive": True},
]  # fmt: skip


async def playbooks(session: Session) -> None:
    """Each step in a playbook of its own that asks for everything, with what is granted said by the agent itself."""
    for hostile in STEPS:
        for more in ({}, {"alarm": [], "defaults": {"min_confidence": 0}}, {"grant": ["power"]}):
            for authorize in (ALL, {"destructive": True, "ops": ["*"]}):
                playbook = {
                    "name": "hostile",
                    "vars": {"k": "ctrl"},
                    "authorize": authorize,
                    **more,
                    "steps": [hostile],
                }
                for grant in ((), ("*",)):
                    with suppress(ReflexarcError):
                        run = await session.begin(playbook, grant=grant, variables={"k": "ctrl+alt+delete"})
                        await run.drive()
                        await end(run.reply, run.drive)
                        run.release()


async def end(reply: Callable[..., None], drive: Callable[[], Awaitable[object]]) -> None:
    """End a run that is held."""
    with suppress(ReflexarcError):
        reply(Reply("abort", reason="over"))
    await drive()


async def replies(session: Session) -> None:
    """A run that holds: amended, acted on, with grants and numbers that are not its own."""
    run = await session.begin({"name": "waits", "steps": [{"name": "x", "wait_for": "memtest", "timeout": 0.1}]},
                              max_escalations=200)  # fmt: skip
    await run.drive()
    for hostile in STEPS:
        whole = {"name": "waits", "authorize": ALL, "alarm": [], "vars": {"k": "ctrl"}, "steps": [hostile]}
        for reply in (
            Reply("act", steps=[hostile]),
            Reply("act", steps=[hostile], grant=["power", "step"]),
            Reply("amend", playbook=whole, resume_at=0),
            Reply("amend", playbook=whole, resume_at=-1, grant=["*"]),
            Reply("grant", grant=["*"]),
            Reply("resume", playbook=whole, steps=[hostile]),
        ):
            for number in (None, 0, -1):
                with suppress(ReflexarcError):
                    run.reply(reply, escalation_id=number)
                    await run.drive()
    if run.state.stage is Stage.HELD:
        await end(run.reply, run.drive)
    run.release()


async def calls(session: Session) -> None:
    """Direct calls: the operations, their chords piece by piece, and names that mean something elsewhere."""
    keys = session.keyboard
    acts: list[Callable[[], Awaitable[None]]] = [
        session.power.off, session.power.reset, session.power.cycle, session.power.shutdown, session.media.eject,
        lambda: session.media.insert("x,readonly=off"), lambda: session.boot.set("cdrom", once=True),
        lambda: session.snapshot.restore("x"), lambda: session.snapshot.delete("x\nsystem_reset"),
        *(lambda k=k: keys.press(k) for k in ("ctrl+alt+delete", "alt+print+b", "power", "sleep", "ctrl_r+alt+kp_dot")),
        *(lambda k=k: keys.down(k) for k in ("ctrl", "alt", "delete", "kp_dot", "print")),
        lambda: keys.press("sysrq"), lambda: keys.type("bo"), keys.release_all,
        lambda: keys.down("alt"), lambda: keys.press("print"), lambda: keys.type("ob"),
        lambda: keys.send([KeyEvent(k, True) for k in ("alt_r", "sysrq", "c")]),
        lambda: keys.send([KeyEvent("ctrl", True), KeyEvent("alt", True), KeyEvent("Delete", True)]),
        lambda: session.console.write("\x01"), lambda: session.console.write("b"),
        lambda: session.console.write("\x01c\nsystem_reset\n"),
    ]  # fmt: skip
    for act in acts:
        with suppress(ReflexarcError):
            await act()
    for number in ("../../state", "", "0" * 300, "x\0y"):
        with suppress(ReflexarcError, ValueError, OSError):
            session.take_up(number)


def test_a_played_machine_gets_nothing_destructive(tmp_path: Path) -> None:
    async def attack() -> None:
        async with lab(tmp_path, script()) as it:
            guard = it.session.machine.guard
            guard.policy, guard.agent = EVERYTHING, True
            run = await it.session.begin({"name": "on", "steps": [ON, MENU]})
            await run.drive()
            run.release()
            for way in (calls, replies, playbooks):
                await way(it.session)
            board = Board()
            for sent in it.machine.sent:
                assert not sent.operation.startswith(
                    ("power.off", "power.reset", "power.cycle", "power.shutdown")
                )
                assert sent.operation.split(".")[0] not in ("media", "boot", "snapshot")
                if sent.operation in ("key.down", "key.up"):
                    assert not board.take(KeyEvent(str(sent.detail), sent.operation == "key.down"))

    asyncio.run(attack())


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[entries.Entry]:
    """A machine whose QEMU writes down every command it is given."""
    (tmp_path / "cdrom").mkdir()
    image = build_cdrom(tmp_path / "cdrom")
    program = tmp_path / "traced-qemu"
    program.write_text(
        f'#!/bin/sh\nexec qemu-system-x86_64 "$@" -D {tmp_path}/trace -trace handle_qmp_command\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "reflexarc.toml").write_text(
        f'[machines.lab]\ndrivers = ["qemu"]\nallow = {{people = ["*"], agents = ["*"]}}\n'
        f'qemu = {{binary = "{program}", cdrom = "{image}", memory_mib = 128, accel = "tcg"}}\n'
    )
    entry = entries.load(tmp_path / "reflexarc.toml").entry("lab")
    start_vm(entry)
    yield replace(entry, policy=EVERYTHING)
    stop_vm(entry)


def commands(folder: Path) -> list[tuple[str, dict[str, object]]]:
    """The commands that QEMU was given, by its own account."""
    found = []
    for line in (folder / "trace").read_text().splitlines():
        request = re.search(r"handle_qmp_command mon \S+ req: (\{.*\})$", line)
        assert request is not None
        data = json.loads(request[1])
        found.append((str(data["execute"]), data.get("arguments") or {}))
    return found


def keys_of(arguments: dict[str, object]) -> Iterator[KeyEvent]:
    for event in arguments["events"]:  # type: ignore[attr-defined]
        if event["type"] == "key":
            name = event["data"]["key"]["data"]
            yield KeyEvent(_KEY.get(name, name), event["data"]["down"])


@pytest.mark.guest
def test_a_real_machine_gets_nothing_destructive(tmp_path: Path, traced: entries.Entry) -> None:
    @asynccontextmanager
    async def client() -> AsyncIterator[Session]:
        async with open_session(traced, agent=True, launch=False) as session:
            yield session

    async def attack() -> None:
        async with client() as session:
            run = await session.begin({"name": "on", "steps": [ON, MENU]})
            assert (await run.drive()).outcome == "succeeded"
            run.release()
            await calls(session)
        async with client() as session:
            await replies(session)
            for hostile in STEPS[:6]:
                with suppress(ReflexarcError):
                    run = await session.begin({"name": "h", "authorize": ALL, "steps": [hostile]})
                    await run.drive()
                    await end(run.reply, run.drive)
                    run.release()

    async def granted() -> None:
        async with open_session(traced, grant=["power.reset"], launch=False) as session:
            await session.power.reset()

    asyncio.run(attack())
    given = commands(tmp_path)
    assert "cont" in [name for name, _ in given]
    assert [name for name, _ in given if name in DESTRUCTIVE] == []
    board = Board()
    events = [
        event for name, arguments in given if name == "input-send-event" for event in keys_of(arguments)
    ]
    assert len(events) > 10
    for event in events:
        assert not board.take(event)
    asyncio.run(granted())
    assert [name for name, _ in commands(tmp_path) if name in DESTRUCTIVE] == ["system_reset"]
