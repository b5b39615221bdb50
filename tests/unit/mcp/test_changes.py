"""Clients are told when actions on elements come and go with an agent that answers; a silent agent holds nothing up."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification
from tests.agents import running
from tests.mcp_lab import MODES, offers_elements

from reflexarc.mcp.server import build

AGENT = 'drivers = ["agent"]\nagent = {{enabled = true, transport = "unix", path = "{path}"}}\n'


def inventory_of(folder: Path, *paths: str) -> Path:
    path = folder / "reflexarc.toml"
    path.write_text("".join(f"[machines.m{n}]\n{AGENT.format(path=one)}" for n, one in enumerate(paths)))
    return path


def test_a_subscriber_is_told_when_an_agent_comes_and_goes(tmp_path: Path) -> None:
    async def ask() -> None:
        server = build(inventory_of(tmp_path, "agent"), every=0.05)
        async with (
            asyncio.timeout(30),
            Client(server) as client,
            client.listen(tools_list_changed=True) as told,
        ):
            assert not await offers_elements(client, 1)
            with running(tmp_path / "agent", extra={"HOME": str(tmp_path)}):
                assert isinstance(await anext(told), ToolsListChanged)
                assert await offers_elements(client, 1)
            assert isinstance(await anext(told), ToolsListChanged)
            assert not await offers_elements(client, 1)

    asyncio.run(ask())


def test_a_client_that_shook_hands_is_promised_it_and_told(tmp_path: Path) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()

    async def heard(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.put_nowait(message)

    async def ask() -> None:
        server = build(inventory_of(tmp_path, "agent"), every=0.05)
        async with asyncio.timeout(30), Client(server, mode="legacy", message_handler=heard) as client:
            offered = client.server_capabilities
            assert offered.tools is not None
            assert offered.tools.list_changed is True
            assert not await offers_elements(client, 1)
            with running(tmp_path / "agent", extra={"HOME": str(tmp_path)}):
                await told.get()
                assert await offers_elements(client, 1)
            await told.get()
            assert not await offers_elements(client, 1)

    asyncio.run(ask())


@pytest.mark.parametrize("mode", MODES)
def test_agents_that_do_not_answer_hold_no_list_up(tmp_path: Path, mode: Any) -> None:
    """They take the connection and say nothing: the list is there before any of them is given up."""

    async def ask() -> list[bool]:
        async with Client(build(inventory_of(tmp_path, "a", "b", "c")), mode=mode) as client:
            assert not await offers_elements(client, 1)
            return [is_open(one) for one in silent]

    with ExitStack() as stack:
        silent = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in "abc"]
        for name, one in zip("abc", silent, strict=True):
            one.bind(str(tmp_path / name))
            one.listen()
        assert asyncio.run(ask()) == [True] * 3


def is_open(listening: socket.socket) -> bool:
    """Tell whether the other end of the connection that was made here still waits."""
    stream, _ = listening.accept()
    with stream, suppress(BlockingIOError):
        stream.setblocking(False)
        while stream.recv(4096):
            pass
        return False
    return True


def test_where_agents_may_not_see_the_tree_there_are_no_elements(tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path, "agent")
    inventory.write_text(inventory.read_text() + 'allow = {people = ["*"], agents = ["observe.frames"]}\n')

    async def ask() -> bool:
        async with Client(build(inventory)) as client:
            return await offers_elements(client)

    with running(tmp_path / "agent", extra={"HOME": str(tmp_path)}):
        assert not asyncio.run(ask())
