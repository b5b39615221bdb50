"""The whole contract of a run through the SDK's own client, over standard input and HTTP, in both protocol eras."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult
from tests.mcp_lab import (
    HELD,
    MODES,
    UP,
    audited,
    call,
    give,
    http_server,
    inside,
    over_http,
    over_stdio,
    pictures,
    refused,
    start,
    values,
    words,
    write_lab,
)

WAYS = ("inside", "stdio", "http")
MAY = ("observe", "input", "power.on", "shell")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@asynccontextmanager
async def connected(way: str, mode: Any, inventory: Path, address: str) -> AsyncIterator[Client]:
    if way == "inside":
        async with inside(inventory, mode) as client:
            yield client
    else:
        target = over_stdio(inventory, mode) if way == "stdio" else over_http(address, mode)
        async with target as client:
            yield client


async def contract(client: Client) -> None:
    """Look, act, be refused; run, be held, see it, answer, finish."""
    assert len((await client.list_tools()).tools) == 15
    assert (await values(client, "observe", machine="lab"))["phase"] == "power_off"
    assert (await refused(client, "power", machine="lab", action="off"))["rule"] == "allow.agents"
    told: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    ran = await client.call_tool("exec", {"machine": "desk", "command": "long"}, progress_callback=progress)
    rest = (ran.structured_content or {})["stdout_rest"]
    (part,) = (await client.read_resource(rest["uri"])).contents
    assert "----- untrusted -----\nline 0\n" in part.text  # type: ignore[union-attr]
    assert told
    result = await call(client, "run_playbook", machine="lab", wait=30, playbook={
        "name": "demo", "steps": [*UP["steps"], *HELD["steps"]],  # type: ignore[misc]
    })  # fmt: skip
    asked: dict[str, Any] = (result.structured_content or {})["escalation"]
    assert (asked["reason"], asked["observed_phase"]) == ("timeout", "grub_menu")
    assert len(pictures(result)) == 1
    done = await values(client, "reply_escalation", run_id=asked["run_id"], escalation_id=asked["escalation_id"],
                        reply="amend", playbook=UP, resume_at=0, wait=30)  # fmt: skip
    assert done["outcome"] == "succeeded"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_the_whole_contract(tmp_path: Path, way: str, mode: str) -> None:
    inventory = write_lab(tmp_path, *MAY)

    async def ask(address: str) -> None:
        async with connected(way, mode, inventory, address) as client:
            await contract(client)

    if way == "http":
        with http_server(inventory) as (address, _, said):
            asyncio.run(ask(address))
        token = tmp_path / "state" / "mcp-token"
        assert said.read_text() == f"reflexarc mcp: {address}, for those who bring the token in {token}\n"
    else:
        asyncio.run(ask(""))
    assert {line["who"] for line in audited()} == {"agent mcp"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_person_is_asked_and_grants_elsewhere(tmp_path: Path, way: str, mode: Any) -> None:
    inventory, told = write_lab(tmp_path, "*"), list[str]()

    async def granting(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        told.append(params.message)
        if len(told) == 1:
            give(inventory, "desk", power__off=None)
        return ElicitResult(action="accept", content={})

    async def ask(address: str) -> None:
        listening = over_http(address, mode, elicitation_callback=granting)
        async with listening if way == "http" else over_stdio(inventory, mode, asked=granting) as client:
            assert (await values(client, "power", machine="desk", action="off"))["power"] == "off"
            assert (await refused(client, "power", machine="desk", action="reset"))["rule"] == "no_grant"

    with http_server(inventory) if way == "http" else nullcontext(("", None, None)) as (address, _, _said):
        asyncio.run(ask(address))
    assert [message.split(" on ")[0] for message in told] == [
        "The agent asks for power.off",
        "The agent asks for power.reset",
    ]
    assert [line["operation"] for line in audited() if line["allowed"] and line["why"] != "policy"] == [
        "power.off"
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_server_on_standard_input(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        start(write_lab(tmp_path, *MAY)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }}  # fmt: skip
    process.stdin.write(json.dumps(hello) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer["result"]["serverInfo"]["name"] == "reflexarc"
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


def test_the_end_of_input_ends_the_server_and_leaves_its_run_to_others(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, *MAY)
    slow = {"name": "slow", "steps": [*UP["steps"], {"name": "x", "wait_for": "memtest", "timeout": 60}]}  # type: ignore[misc]

    async def ask() -> None:
        async with over_stdio(inventory) as client:
            run_id = (await values(client, "run_playbook", machine="lab", playbook=slow, wait=0))["run_id"]
        async with over_stdio(inventory) as client:
            result = await call(client, "run_status", run_id=run_id)
            assert "interrupted" in words(result)
            going = await values(
                client, "reply_escalation", run_id=run_id, escalation_id=0, reply="resume", wait=0
            )
            assert going["outcome"] == "running"
            assert (await values(client, "cancel_run", run_id=run_id))["outcome"] == "aborted"

    asyncio.run(ask())


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    lines = (
        "import sys", "sys.modules['mcp'] = None", "sys.argv = ['reflexarc', 'mcp']",
        "from reflexarc.cli.main import main", "main()",
    )  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", "; ".join(lines)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2
    assert "pip install 'reflexarc[mcp]'" in ran.stderr
