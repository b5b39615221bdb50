"""Whatever signal ends a server over HTTP, it closes what it holds: buttons, runs, the outputs that it kept."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from tests.mcp_lab import HELD, http_server, inside, over_http, values, write_lab


def outputs(folder: Path) -> list[Path]:
    return list(folder.glob("reflexarc-mcp-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
def test_a_server_that_is_told_to_end_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    inventory = write_lab(tmp_path, "*")
    waits = {"name": "waits", "steps": [{**HELD["steps"][0], "timeout": 60}]}  # type: ignore[index]

    async def use(address: str) -> str:
        async with over_http(address) as client:
            await values(client, "exec", machine="desk", command="long")
            assert len(outputs(tmp_path)) == 1
            ran = await values(client, "run_playbook", machine="lab", playbook=waits, wait=0)
            return str(ran["run_id"])

    async def look(run_id: str) -> str:
        async with inside(inventory) as client:
            return str((await values(client, "run_status", run_id=run_id))["outcome"])

    with http_server(inventory) as (address, process, said):
        run_id = asyncio.run(use(address))
        process.send_signal(number)
        process.wait(30)
        assert "Traceback" not in said.read_text()
    assert outputs(tmp_path) == []
    assert asyncio.run(look(run_id)) == "interrupted"
