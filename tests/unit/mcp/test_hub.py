"""How long a machine stays open, what ends that, and what a client left down."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import Implementation
from tests.mcp_lab import MODES, audited, refused, values, write_lab

from reflexarc.errors import ConnectError
from reflexarc.machine.capabilities import Button
from reflexarc.mcp.hub import Hub, Opened
from reflexarc.mcp.server import build

PATIENCE = 20.0


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once it holds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)


async def opened_by(hub: Hub, machine: str = "desk") -> Opened:
    async with hub.looking(machine) as opened:
        return opened


def lab(folder: Path, *lines: dict[str, object]) -> Path:
    """An inventory whose machine `desk` does these things, too."""
    inventory = write_lab(folder, "observe", "input", "shell", "power", tree=True)
    with (folder / "desk" / "recording.jsonl").open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    return inventory


def test_a_machine_stays_open_while_it_is_used_now_and_then(tmp_path: Path) -> None:
    async def ask() -> None:
        hub = Hub(lab(tmp_path), idle=0.6)
        first = await opened_by(hub)
        end = time.monotonic() + 1.8
        while time.monotonic() < end:
            assert await opened_by(hub) is first
            await first.session.watcher.next(await first.session.observe(), 0.2)

        async def is_another() -> bool:
            await first.session.watcher.next(first.session.watcher.latest, 1.0)
            return await opened_by(hub) is not first

        await until(is_another)
        await hub.close()

    asyncio.run(ask())


def test_a_machine_stays_open_while_a_button_is_down(tmp_path: Path) -> None:
    async def ask() -> None:
        hub = Hub(lab(tmp_path), idle=0.1)
        async with hub.acting("desk") as opened:
            await opened.session.pointer.down(1, 1)
        pressed = opened.down_since
        assert pressed is not None
        await until(lambda: time.monotonic() > pressed + 0.8)
        assert await opened_by(hub) is opened
        assert opened.down_since == pressed
        await hub.close()

    asyncio.run(ask())


@pytest.mark.parametrize("busy", ["short acts", "a long act", "nothing"])
def test_a_button_is_let_go_in_its_time_whatever_else_is_done(tmp_path: Path, busy: str) -> None:
    held, longest = 0.6, 2.0

    async def ask() -> None:
        hub = Hub(lab(tmp_path), held=held)
        async with hub.acting("desk") as opened:
            await opened.session.pointer.down(1, 1)
        pressed = opened.down_since
        assert pressed is not None
        while opened.down_since is not None and time.monotonic() < pressed + longest:
            if busy == "nothing":
                await asyncio.sleep(0.01)
                continue
            async with hub.acting("desk") as acting:
                assert acting is opened
                await acting.session.keyboard.press("a", hold=0.1)
        assert opened.down_since is None
        assert time.monotonic() - pressed >= held
        await hub.close()

    async def during_a_long_act() -> None:
        hub = Hub(lab(tmp_path), held=held)
        async with hub.acting("desk") as opened:
            await opened.session.pointer.down(1, 1)
        async with hub.acting("desk") as acting:
            typing = asyncio.ensure_future(acting.session.keyboard.press("a", hold=longest))
            await until(lambda: opened.down_since is None)
            keyboard = acting.session.machine.guarded.keyboard
            assert keyboard is not None
            assert not typing.done()
            assert keyboard.is_down
            await typing
        await hub.close()

    asyncio.run(during_a_long_act() if busy == "a long act" else ask())


def test_a_button_that_went_down_anew_has_its_own_time(tmp_path: Path) -> None:
    async def ask() -> None:
        hub = Hub(lab(tmp_path), held=0.5)
        async with hub.acting("desk") as opened:
            pointer = opened.session.pointer
            await pointer.down(1, 1)
            first = opened.down_since
        await until(lambda: first is not None and time.monotonic() > first + 0.3)
        async with hub.acting("desk"):
            await pointer.up(1, 1)
            await pointer.down(1, 1, Button.RIGHT)
        second = opened.down_since
        assert second is not None
        await until(lambda: opened.down_since is None)
        assert time.monotonic() - second >= 0.5
        await hub.close()

    asyncio.run(ask())


@pytest.mark.parametrize("leaves", ["key", "button"])
def test_what_a_call_that_was_broken_off_left_down_is_let_go(tmp_path: Path, leaves: str) -> None:
    async def ask() -> None:
        hub = Hub(lab(tmp_path), held=0.3)
        async with hub.acting("desk") as opened:
            keyboard = opened.session.keyboard
            if leaves == "key":
                await keyboard.down("shift")
            else:
                await opened.session.pointer.down(1, 1)
        await until(lambda: not keyboard.is_down and opened.down_since is None)
        async with hub.acting("desk"):
            await keyboard.down("shift")
            waiting = asyncio.ensure_future(opened_to_act(hub))
            await asyncio.sleep(0)
        assert await waiting == (False, None)
        await hub.close()

    async def opened_to_act(hub: Hub) -> tuple[bool, float | None]:
        async with hub.acting("desk") as opened:
            return opened.session.keyboard.is_down, opened.down_since

    asyncio.run(ask())


def test_an_agent_that_does_not_answer_closes_nothing(tmp_path: Path) -> None:
    inventory = lab(tmp_path, {"on": {"key": "f1"}, "agent": "absent"})

    async def ask() -> None:
        hub = Hub(inventory)
        async with hub.acting("desk") as opened:
            await opened.session.pointer.down(1, 1)
            await opened.session.keyboard.press("f1")

        async def ask_inside(ask: Callable[[Opened], Awaitable[object]]) -> None:
            async with hub.looking("desk") as found:
                assert found is opened
                await ask(found)

        for inside in (
            lambda one: one.session.accessibility.dump(),
            lambda one: one.session.apps.launch("Maker"),
        ):
            with pytest.raises(ConnectError):
                await ask_inside(inside)
        assert await opened_by(hub) is opened
        assert opened.down_since is not None
        await hub.close()

    asyncio.run(ask())


def test_a_machine_that_is_lost_is_opened_anew_and_once_for_all(tmp_path: Path) -> None:
    inventory = lab(tmp_path, {"on": {"key": "f1"}, "at": 0.3, "frame": "broken.png"})
    (tmp_path / "desk" / "broken.png").write_bytes(b"no picture")

    async def ask() -> None:
        hub = Hub(inventory)
        async with hub.acting("desk") as opened:
            first = opened
            await opened.session.keyboard.press("f1")
        await until(lambda: first.session.watcher.has_lost)
        found = await asyncio.gather(*(opened_by(hub) for _ in range(5)))
        assert first not in found
        assert len(set(map(id, found))) == 1
        await hub.close()

    asyncio.run(ask())


@pytest.mark.parametrize("mode", MODES)
def test_coordinates_are_in_the_image_that_the_same_client_saw(tmp_path: Path, mode: Any) -> None:
    server = build(lab(tmp_path))

    def client(name: str) -> Client:
        return Client(server, mode=mode, client_info=Implementation(name=name, version="1"))

    async def act(who: Client, action: str, **arguments: Any) -> dict[str, Any]:
        return await values(who, "computer", machine="desk", action=action, **arguments)

    async def ask() -> None:
        async with client("one") as one, client("two") as two:
            for action in ("left_click", "mouse_move", "ax_element_at", "left_mouse_down"):
                failed = await refused(one, "computer", machine="desk", action=action, coordinate=[700, 500])
                assert "you were shown none of this machine" in failed["message"]
            await act(one, "screenshot")
            await act(one, "mouse_move", coordinate=[700, 500])
            await act(two, "key", text="Return", screenshot=True)
            assert (await act(two, "left_click", coordinate=[700, 500]))["done"] is True
            failed = await refused(one, "computer", machine="desk", action="left_click", coordinate=[9, 9])
            assert "another size than in the last image; take a screenshot" in failed["message"]
            await act(one, "screenshot")
            assert (await act(one, "cursor_position"))["coordinate"] == [700, 500]

    asyncio.run(ask())
    assert [line["x"] for line in audited() if str(line["operation"]).startswith("pointer.")] == [1050, 700]


def test_a_refused_click_moves_nothing_not_even_what_is_known(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "observe")

    async def ask() -> None:
        async with Client(build(inventory)) as client:
            await values(client, "computer", machine="desk", action="screenshot")
            for action in ("left_click", "mouse_move", "left_mouse_down", "left_mouse_up"):
                await refused(client, "computer", machine="desk", action=action, coordinate=[9, 9])
            failed = await refused(client, "computer", machine="desk", action="cursor_position")
            assert "isn't known" in failed["message"]

    asyncio.run(ask())
