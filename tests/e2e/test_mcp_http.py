"""The server over HTTP: who may come, how much of it, what becomes of runs and keys when a client is gone."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from mcp_types import Tool
from tests.mcp_arguments import odd
from tests.mcp_lab import (
    HELD,
    MODES,
    UP,
    call,
    http_server,
    over_http,
    own_token,
    refused,
    values,
    words,
    write_lab,
)

from reflexarc.inventory.places import places

TOKEN = "a-token-of-more-than-sixteen"
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
}}  # fmt: skip
SLOW: dict[str, Any] = {
    "name": "slow", "steps": [*UP["steps"], {"name": "x", "wait_for": "memtest", "timeout": 60}],  # type: ignore[misc]
}  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Path]]:
    """A server that all of these tests share: its address, its inventory, what it says on standard error."""
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFLEXARC_STATE", str(folder / "state"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        inventory = write_lab(folder, "observe", "input", "power.on", "shell", "files")
        with http_server(inventory) as (address, process, said):
            yield address, inventory, said
            assert process.poll() is None
    assert not {"Traceback", "  File "} & set(said.read_text().splitlines())
    assert "raised an unexpected" not in said.read_text()


def ask(address: str, headers: Mapping[str, str], content: bytes = json.dumps(HELLO).encode()) -> int:
    """The status that a request gets."""
    return httpx.post(address, timeout=30, headers={**HEADERS, **headers}, content=content).status_code


def ours() -> dict[str, str]:
    """The header by which a client of this user is told."""
    return {"authorization": f"Bearer {own_token()}"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200), ({"authorization": "Bearer x"}, 401),
        ({"host": "evil.example"}, 421), ({"host": "127.0.0.1:1"}, 421),
        ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403), ({"content-type": "text/plain"}, 400),
        ({"host": "localhost:{port}"}, 200), ({"origin": "http://localhost:{port}"}, 200),
    ],
)  # fmt: skip
def test_host_and_origin_are_checked(
    lab: tuple[str, Path, Path], headers: dict[str, str], status: int
) -> None:
    port = str(httpx.URL(lab[0]).port)
    filled = {name: value.format(port=port) for name, value in headers.items()}
    assert ask(lab[0], {**ours(), **filled}) == status


def test_a_body_is_bounded(lab: tuple[str, Path, Path]) -> None:
    assert ask(lab[0], ours(), b" " * (5 << 20)) == 413


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc":"2.0"}']
)
def test_what_is_no_request_is_refused(lab: tuple[str, Path, Path], content: bytes) -> None:
    assert 400 <= ask(lab[0], ours(), content) < 500


@pytest.mark.parametrize("mode", MODES)
def test_fifty_clients_at_once(lab: tuple[str, Path, Path], mode: Any) -> None:
    async def one(number: int) -> tuple[str, int]:
        async with over_http(lab[0], mode) as client:
            seen = await values(client, "observe", machine="desk", text=False)
            await asyncio.sleep(0)
            return str(seen["machine"]), len((await client.list_tools()).tools)

    async def all_of_them() -> list[tuple[str, int]]:
        return await asyncio.gather(*(one(number) for number in range(50)))

    assert asyncio.run(all_of_them()) == [("desk", 15)] * 50


@pytest.mark.parametrize("mode", MODES)
def test_a_run_goes_on_without_the_client_that_began_it(lab: tuple[str, Path, Path], mode: Any) -> None:
    async def begin() -> None:
        async with over_http(lab[0], mode) as client:
            begun = asyncio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            arguments = {"machine": "lab", "playbook": SLOW, "wait": 60}
            waiting = asyncio.create_task(
                client.call_tool("run_playbook", arguments, progress_callback=progress)
            )
            await begun.wait()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def look() -> None:
        async with over_http(lab[0]) as client:
            (listed,) = (await client.read_resource("reflexarc://runs")).contents
            newest = json.loads(listed.text)[0]  # type: ignore[union-attr]
            assert (newest["playbook"], newest["outcome"]) == ("slow", "running")
            ended = await values(client, "cancel_run", run_id=newest["run_id"])
            assert ended["outcome"] == "aborted"

    asyncio.run(begin())
    asyncio.run(look())


KNOWN: dict[str, list[Any]] = {
    "machine": ["desk", "lab", "none"], "coordinate": [[10, 10], [1e6, -1]], "region": [[0, 0, 50, 50], [9, 9, 1, 1]],
    "text": ["a", "ctrl+s", "AXPress", "\0"], "name": ["Build", "s1"], "ref": [1, "e1"], "role": ["AXButton"],
    "command": ["uname -r", "false", "none"], "path": ["/etc/hostname", "/x", "x"], "base64": ["YQ==", "?"],
    "source": ["a.iso", "/etc/passwd"], "timeout": [0.2], "wait": [0], "duration": [0.01],
    "playbook": [UP, "name: x\nsteps: []\n", "none", {}, {"name": "x", "steps": [{"name": "y", "wait_for": "z"}]}],
    "steps": [[], [{"name": "x"}], [{"name": "x", "action": "press_key", "args": {"key": "a"}}]], "env": [{"A": "b"}],
    "element": [{"role": "AXButton"}, {}], "phase": ["mine"], "resume_at": [0, "menu"], "vars": [{}, {"a": 1}],
}  # fmt: skip
MAY_HAPPEN = {
    "ConfigError", "SafetyError", "PlaybookError", "RunError", "MachineBusyError", "CapabilityError",
    "OperationRejectedError",
}  # fmt: skip
PER_TOOL = 15


def test_wild_arguments_give_errors_and_never_a_traceback(lab: tuple[str, Path, Path]) -> None:
    """Of every tool: what fits, and what fits but for one argument. Each of them is carried out at least once."""
    reached: Counter[str] = Counter()
    errors: set[object] = set()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(over_http(lab[0])) as client:
        tools = portal.call(client.list_tools).tools

        async def hold() -> Any:
            held = await values(client, "run_playbook", machine="lab", playbook=HELD, wait=30)
            return held["escalation"]

        asked = portal.call(hold)
        known = {**KNOWN, "run_id": [asked["run_id"], "0"], "escalation_id": [asked["escalation_id"], 7]}

        async def once(tool: str, arguments: dict[str, Any]) -> None:
            try:
                result = await call(client, tool, **arguments)
            except ValueError:
                return  # the client itself can't write such a number, or such a text
            assert "Traceback" not in words(result)
            if result.structured_content is None:
                assert "validation error" in words(result), words(result)
                return
            reached[tool] += 1
            errors.add(result.structured_content.get("error"))

        def wildly(tool: Tool) -> None:
            @settings(max_examples=PER_TOOL, deadline=None, suppress_health_check=list(HealthCheck))
            @given(odd(tool.input_schema, known))
            def wild(arguments: dict[str, Any]) -> None:
                portal.call(once, tool.name, arguments)

            wild()

        for tool in tools:
            wildly(tool)
    assert {name: count for name, count in reached.items() if count >= PER_TOOL // 5}.keys() == {
        t.name for t in tools
    }
    assert errors - {None} <= MAY_HAPPEN
    assert "raised an unexpected exception" not in lab[2].read_text()


@pytest.mark.parametrize("mode", MODES)
def test_a_token_that_is_given_is_the_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)

    async def used(address: str) -> None:
        async with over_http(address, mode, TOKEN) as client:
            assert (await values(client, "observe", machine="desk"))["machine"] == "desk"
            assert (await refused(client, "power", machine="desk", action="off"))["rule"] == "allow.agents"

    with http_server(write_lab(tmp_path), "--token-file", str(token)) as (address, _, said):
        assert [ask(address, more) for more in ({}, {"authorization": "Bearer x"})] == [
            401,
            401,
        ]
        asyncio.run(used(address))
        assert said.read_text() == f"reflexarc mcp: {address}, for those who bring the token in {token}\n"
    assert not places().mcp_token.exists()
