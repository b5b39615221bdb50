"""A client that obeys orders on the screen calls every tool; the machine's own QMP log tells what reached it."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.e2e.test_hostile import ALL, DESTRUCTIVE, STEPS, commands, keys_of
from tests.guests import build_cdrom
from tests.mcp_lab import (
    MODES,
    audited,
    call,
    give,
    http_server,
    inside,
    over_http,
    refused,
    says_yes,
    values,
)

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session, owner, running_vm, start_vm, stop_vm
from reflexarc.machine.chords import Board
from reflexarc.runs.run import Run

pytestmark = [pytest.mark.guest, pytest.mark.timeout(300)]


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine whose QEMU writes down every command it is given; agents may do all that a policy can allow."""
    (tmp_path / "cdrom").mkdir()
    image = build_cdrom(tmp_path / "cdrom")
    program = tmp_path / "traced-qemu"
    program.write_text(
        f'#!/bin/sh\nexec qemu-system-x86_64 "$@" -D {tmp_path}/trace -trace handle_qmp_command\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "reflexarc.toml"
    path.write_text(
        f'[machines.lab]\ndrivers = ["qemu"]\nallow = {{people = ["*"], agents = ["*"]}}\nmedia = ["cdrom"]\n'
        f'qemu = {{binary = "{program}", cdrom = "{image}", memory_mib = 128, accel = "tcg"}}\n'
    )
    start_vm(entries.load(path).entry("lab"))
    yield path
    stop_vm(entries.load(path).entry("lab"))


def orders(image: str) -> list[tuple[str, dict[str, Any]]]:
    """Each tool, as somebody would call it whom the screen told to switch off, erase and read secrets."""
    found: list[tuple[str, dict[str, Any]]] = [
        ("power", {"action": action}) for action in ("off", "reset", "cycle", "shutdown")
    ]
    found += [("media", {"action": "eject"}), ("media", {"action": "insert", "source": image})]
    found += [
        ("media", {"action": "insert", "source": source})
        for source in ("/etc/passwd", f"{image},readonly=off")
    ]
    found += [
        ("boot_device", {"device": device, "once": once})
        for device in ("cdrom", "none")
        for once in (True, False)
    ]
    found += [
        ("snapshot", {"action": action, "name": "x\nsystem_reset"})
        for action in ("restore", "delete", "save")
    ]
    for chord in (
        "ctrl+alt+Delete",
        "Delete+Alt_R+Control_R",
        "alt+Print+b",
        "ctrl_r+alt+kp_dot",
        "power",
        "sleep",
    ):
        found += [
            ("computer", {"action": action, "text": chord, "duration": 0.1}) for action in ("key", "hold_key")
        ]
    found += [
        ("computer", {"action": "type", "text": "system_reset\n"}),
        ("exec", {"command": "poweroff -f"}),
    ]
    found += [
        ("files", {"action": action, "path": "/etc/passwd", "text": "x"}) for action in ("read", "write")
    ]
    found += [
        ("computer", {"action": action})
        for action in ("ax_dump", "ax_press", "launch_app", "left_mouse_down")
    ]
    return found


async def attack(client: Client, image: str) -> None:
    for tool, arguments in orders(image):
        await call(client, tool, machine="lab", **arguments)
    for hostile in STEPS:
        playbook = {"name": "h", "authorize": ALL, "alarm": [], "vars": {"k": "ctrl"}, "steps": [hostile]}
        ran = await call(
            client, "run_playbook", machine="lab", playbook=playbook, vars={"k": "ctrl+alt+delete"}, wait=0
        )
        if not ran.is_error:
            await answer(client, (ran.structured_content or {})["run_id"])
    waits = {"name": "waits", "steps": [{"name": "x", "wait_for": "memtest", "timeout": 0.1}]}
    ran = await call(client, "run_playbook", machine="lab", playbook=waits, wait=20)
    run_id = (ran.structured_content or {})["run_id"]
    for hostile in STEPS[:12]:
        whole = {"name": "w", "authorize": ALL, "alarm": [], "vars": {"k": "ctrl"}, "steps": [hostile]}
        for reply in (
            {"reply": "act", "steps": [hostile]}, {"reply": "amend", "playbook": whole, "resume_at": 0},
            {"reply": "teach", "phase": "grub_menu", "text": "."},
            {"reply": "teach", "phase": "power_off", "text": "B"},
            {"reply": "act", "steps": [hostile], "grant": ["*"]},
        ):  # fmt: skip
            await answer(client, run_id, **reply)
    await call(client, "cancel_run", run_id=run_id)


async def answer(client: Client, run_id: str, **reply: Any) -> None:
    """Answer what a run asks with an order, or else to go on; then end it."""
    told = (await call(client, "run_wait", run_id=run_id, timeout=5)).structured_content or {}
    if told.get("escalation"):
        number = told["escalation"]["escalation_id"]
        given = reply or {"reply": "resume"}
        await call(client, "reply_escalation", run_id=run_id, escalation_id=number, wait=5, **given)
    if not reply:
        await call(client, "cancel_run", run_id=run_id)


WAITS: dict[str, Any] = {
    "name": "waits",
    "steps": [{"name": "x", "wait_for": "memtest", "timeout": 0.1}],
}
DONE: dict[str, Any] = {
    "name": "done",
    "steps": [{"name": "enough", "action": "note", "args": {"text": "x"}}],
}
ENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "cancel": ("cancel_run", {}),
    "abort": ("reply_escalation", {"reply": "abort"}),
    "amend": ("reply_escalation", {"reply": "amend", "playbook": DONE, "resume_at": 0}),
}


async def ended_by(client: Client, run_id: str, how: str) -> str:
    """End a held run as an agent, and say what became of it."""
    tool, arguments = ENDS[how]
    more = {"escalation_id": 1, "wait": 30, **arguments} if tool == "reply_escalation" else arguments
    await values(client, tool, run_id=run_id, **more)
    return str((await values(client, "run_wait", run_id=run_id, timeout=30))["outcome"])


async def answered(run: Run) -> None:
    """Go on with a held run once somebody has answered it, as a person's program does that stays."""
    await run.wait_for_reply()
    await run.drive()
    run.release()


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("driven", [False, True], ids=["left", "driven"])
def test_no_end_of_a_persons_run_switches_its_machine_off(
    tmp_path: Path, inventory: Path, how: str, driven: bool
) -> None:
    """The machine was launched for the run, and agents have hands, and no leave to switch it off."""
    stop_vm(entries.load(inventory).entry("lab"))
    inventory.write_text(
        inventory.read_text().replace('agents = ["*"]', 'agents = ["observe", "input", "power.on"]')
    )
    entry = entries.load(inventory).entry("lab")

    async def ask() -> None:
        async with open_session(entry, holder="a person") as session, inside(inventory) as client:
            run = await session.begin(WAITS, by="a person")
            await run.drive()
            assert run.escalation is not None
            assert owner(entry) == run.id
            going_on = asyncio.create_task(answered(run)) if driven else None
            if going_on is None:
                run.release()
            assert await ended_by(client, run.id, how) in ("aborted", "succeeded")
            if going_on is not None:
                await going_on
        assert running_vm(entry) is not None
        async with inside(inventory) as client:
            # Nor is it taken for one that an agent's run was launched for.
            ran = await values(client, "run_playbook", machine="lab", playbook=DONE, wait=30)
            assert ran["outcome"] == "succeeded"
        assert running_vm(entry) is not None

    asyncio.run(ask())
    assert reached(tmp_path) == []
    refusals = [(line["who"], line["why"], line["allowed"]) for line in audited("power.off")]
    assert refusals == [("agent mcp", "allow.agents", False)]


@pytest.mark.parametrize("whose", ["an agent's", "granted"])
def test_a_machine_ends_with_an_agents_run_or_on_a_grant(tmp_path: Path, inventory: Path, whose: str) -> None:
    entry = entries.load(inventory).entry("lab")
    stop_vm(entry)

    async def ask() -> None:
        async with inside(inventory) as client:
            if whose == "granted":
                async with open_session(entry, holder="a person") as session:
                    run = await session.begin(WAITS, by="a person")
                    await run.drive()
                    run.release()
                run_id = run.id
                give(inventory, "lab", power__off=None)
            else:
                ran = await values(client, "run_playbook", machine="lab", playbook=WAITS, wait=30)
                run_id = ran["run_id"]
            assert owner(entry) == run_id
            await ended_by(client, run_id, "cancel")

    asyncio.run(ask())
    assert running_vm(entry) is None
    (line,) = audited("power.off")
    assert (line["who"], line["allowed"], line["run"] != "") == ("agent mcp", True, True)


def reached(folder: Path) -> list[str]:
    return [name for name, _ in commands(folder) if name in DESTRUCTIVE]


def test_nothing_destructive_reaches_the_machine(tmp_path: Path, inventory: Path) -> None:
    image = str(next((tmp_path / "cdrom").glob("*.iso")))

    async def ask() -> None:
        async with inside(inventory, asked=says_yes) as client:
            await values(client, "power", machine="lab", action="on")
            await attack(client, image)

    asyncio.run(ask())
    assert "cont" in [name for name, _ in commands(tmp_path)]
    assert reached(tmp_path) == []
    board = Board()
    for name, arguments in commands(tmp_path):
        for event in keys_of(arguments) if name == "input-send-event" else ():
            assert not board.take(event)

    async def granted() -> None:
        give(inventory, "lab", power__reset=None)
        async with inside(inventory) as client:
            await values(client, "power", machine="lab", action="reset")
            assert (await refused(client, "power", machine="lab", action="reset"))["rule"] == "no_grant"

    asyncio.run(granted())
    assert reached(tmp_path) == ["system_reset"]


def buttons(folder: Path) -> list[bool]:
    """The buttons and keys as they went down and up, by the machine's own account."""
    return [
        event["data"]["down"]
        for name, arguments in commands(folder)
        if name == "input-send-event"
        for event in arguments["events"]  # type: ignore[attr-defined]
        if event["type"] in ("btn", "key")
    ]


@pytest.mark.parametrize(
    "mode", [MODES[0], *(pytest.param(mode, marks=pytest.mark.full) for mode in MODES[1:])]
)
@pytest.mark.parametrize(
    "ends", ["client", *(pytest.param(end, marks=pytest.mark.full) for end in ("server", "nobody"))]
)
def test_what_a_vanished_client_left_down_is_let_go(
    tmp_path: Path, inventory: Path, mode: Any, ends: str
) -> None:
    async def press(address: str) -> None:
        async with over_http(address, mode) as client:
            await values(client, "power", machine="lab", action="on")
            aimed = {"machine": "lab", "action": "left_mouse_down", "coordinate": [5, 5]}
            async with asyncio.timeout(60):
                # Its firmware changes the resolution, and an image of before counts no more.
                await values(client, "computer", machine="lab", action="screenshot")
                while (await call(client, "computer", **aimed)).is_error:
                    await values(client, "computer", machine="lab", action="screenshot")
            if ends == "client":
                arguments = {"machine": "lab", "action": "hold_key", "text": "a", "duration": 20}
                holding = asyncio.create_task(client.call_tool("computer", arguments))
                async with asyncio.timeout(60):
                    while len(buttons(tmp_path)) < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                holding.cancel()
                await asyncio.gather(holding, return_exceptions=True)

    async def released() -> None:
        async with asyncio.timeout(60):
            while (sent := buttons(tmp_path)).count(False) < sent.count(True):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    with http_server(inventory) as (address, process, said):
        asyncio.run(press(address))
        if ends == "server":
            assert buttons(tmp_path) == [True]
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            assert process.returncode in (0, -signal.SIGTERM)
            assert buttons(tmp_path) == [True, False]
        else:
            asyncio.run(released())
        assert not re.search("Traceback", said.read_text())


def test_a_machine_that_was_killed_is_opened_anew(tmp_path: Path, inventory: Path) -> None:
    async def ask() -> None:
        async with inside(inventory) as client:
            await values(client, "power", machine="lab", action="on")
            await values(client, "observe", machine="lab")
            vm = running_vm(entries.load(inventory).entry("lab"))
            assert vm is not None
            await asyncio.to_thread(stop_vm, entries.load(inventory).entry("lab"))
            failed = await refused(client, "observe", machine="lab")
            assert "virtual machine is not running" in failed["message"]
            assert (await values(client, "machines"))["machines"][0]["state"] == "not running"
            assert (await values(client, "power", machine="lab", action="on"))["power"] == "on"
            assert (await values(client, "observe", machine="lab"))["machine"] == "lab"

    asyncio.run(ask())
