"""Over HTTP, too, clients are told when an agent comes, and the log tells them and their sessions apart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import Implementation, ToolListChangedNotification
from tests.agents import running
from tests.mcp_lab import MODES, audited, http_server, offers_elements, values, write_lab


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_clients_are_told_when_an_agent_comes(tmp_path: Path, mode: Any) -> None:
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(
        '[machines.one]\ndrivers = ["agent"]\nagent = {enabled = true, transport = "unix", path = "agent"}\n'
    )
    told = asyncio.Event()

    async def heard(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async def subscribed(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            await anext(changes)
            told.set()

    async def ask(address: str) -> None:
        async with asyncio.timeout(60), Client(address, mode=mode, message_handler=heard) as client:
            waiting = asyncio.create_task(subscribed(client)) if mode == "auto" else None
            assert not await offers_elements(client, 1)
            with running(tmp_path / "agent", extra={"HOME": str(tmp_path)}):
                await told.wait()
                assert await offers_elements(client, 1)
            if waiting is not None:
                await waiting

    with http_server(inventory) as (address, _, _said):
        asyncio.run(ask(address))


@pytest.mark.parametrize("mode", MODES)
def test_clients_of_one_server_are_told_apart(tmp_path: Path, mode: Any) -> None:
    async def press(address: str, name: str) -> None:
        async with Client(address, mode=mode, client_info=Implementation(name=name, version="1")) as client:
            for _ in range(2):
                await values(client, "computer", machine="desk", action="key", text="a")

    with http_server(write_lab(tmp_path, "observe", "input")) as (address, _, _said):
        for name in ("one", "one", "two"):
            asyncio.run(press(address, name))
    lines = audited("keyboard.press")
    assert [line["client"] for line in lines] == ["one/1"] * 4 + ["two/1"] * 2
    peers = [str(line["peer"]) for line in lines]
    assert all(peer.startswith("127.0.0.1:") and ("#" in peer) is (mode == "legacy") for peer in peers)
    assert len({peer.partition("#")[2] or peer for peer in peers[::2]}) == 3
