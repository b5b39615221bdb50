"""A named button of a real program on a real desktop, pressed by its ref through the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from guests.desktop.session import DesktopSession
from mcp import Client
from tests.agents import running
from tests.desktop import accessibility, desktop, gtk3, x11  # noqa: F401  (fixtures)
from tests.mcp_lab import (
    MODES,
    call,
    http_server,
    inside,
    offers_elements,
    over_stdio,
    pictures,
    refused,
    values,
    words,
)


@pytest.fixture
def inventory(
    desktop: DesktopSession,  # noqa: F811
    gtk3: object,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    socket = tmp_path / "agent.sock"
    path = tmp_path / "reflexarc.toml"
    path.write_text(
        '[machines.desk]\ndrivers = ["agent"]\nallow = {people = ["*"], agents = ["observe", "input"]}\n'
        f'agent = {{enabled = true, pixels = true, transport = "unix", path = "{socket}"}}\n'
    )
    with running(socket, extra=desktop.environ):
        yield path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["inside", "stdio", "http"])
def test_a_named_button_is_found_and_pressed_by_ref(inventory: Path, way: str, mode: Any) -> None:
    with http_server(inventory) if way == "http" else nullcontext(("", None, None)) as (address, _, _said):
        asyncio.run(pressed_by_ref(lambda: connection(way, inventory, mode, address)))


def connection(way: str, inventory: Path, mode: Any, address: str) -> AbstractAsyncContextManager[Client]:
    if way == "inside":
        return inside(inventory, mode)
    return over_stdio(inventory, mode) if way == "stdio" else Client(address, mode=mode)


async def pressed_by_ref(connecting: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
    async with connecting() as client:
        assert await offers_elements(client)
        result = await call(client, "computer", machine="desk", action="ax_dump", screenshot=True)
        assert '"Build"' in words(result)
        assert len(pictures(result)) == 1
        (build,) = (
            await values(client, "computer", machine="desk", action="ax_find", role="AXButton", name="Build")
        )["elements"]
        pressed = await call(client, "computer", machine="desk", action="ax_press", ref=build["ref"])
        assert not pressed.is_error, words(pressed)
        assert len(words(pressed)) < 1_500
        built = await values(client, "computer", machine="desk", action="ax_wait", name="built", duration=20)
        assert built["elements"][0]["role"] == "AXStaticText"
        stale = await refused(client, "computer", machine="desk", action="ax_press", ref="e999999")
        assert "read the tree again" in stale["message"]
