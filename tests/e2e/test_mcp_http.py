"""The server over HTTP: who may come, how much of it, what becomes of runs and keys when a client is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.mcp_lab import (
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


MACHINES = st.sampled_from(["desk", "lab", "none"])
TOOLS = ["machines", "observe", "computer", "exec", "files", "power", "media", "boot_device", "snapshot", "run_status",
         "run_wait", "reply_escalation", "cancel_run", "playbooks", "run_playbook", "nothing"]  # fmt: skip
NAMES = ["machine", "action", "coordinate", "start_coordinate", "text", "duration", "region", "ref", "value", "role",
         "name", "screenshot", "command", "cwd", "env", "path", "base64", "source", "device", "once", "run_id", "reply",
         "escalation_id", "playbook", "steps", "resume_at", "phase", "element", "image", "outline", "vars",
         "scroll_direction", "scroll_amount"]  # fmt: skip
ACTIONS = st.sampled_from(["screenshot", "left_click", "zoom", "scroll", "type", "key", "ax_find", "ax_press", "read",
                           "write", "insert", "restore", "save", "validate", "show", "set", "off", "on"])  # fmt: skip
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=40)
WILD = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(NAMES, WILD), "machine": MACHINES | WILD, "action": ACTIONS | WILD,
        "coordinate": st.lists(st.floats() | st.integers(), max_size=3) | WILD,
        "region": st.lists(st.floats() | st.integers(), min_size=3, max_size=5) | WILD,
        "wait": st.just(0), "timeout": st.sampled_from([0, 1, -1]),
    },
)  # fmt: skip


def test_wild_arguments_give_errors_and_never_a_traceback(lab: tuple[str, Path, Path]) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(over_http(lab[0])) as client:

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(TOOLS), ARGUMENTS)
        def wild(tool: str, arguments: dict[str, Any]) -> None:
            async def once() -> None:
                try:
                    result = await call(client, tool, **arguments)
                except ValueError:
                    return  # the client itself can't write such a number, or such a text
                assert "Traceback" not in words(result)
                if result.is_error and result.structured_content is None:
                    assert "validation error" in words(result) or "Unknown tool" in words(result), words(
                        result
                    )

            portal.call(once)

        wild()
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
