"""A server for AI agents on played machines, and the SDK's own client on each way to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, ImageContent, TextContent
from PIL import Image
from tests.played import STEPS, menu, write_recording

from reflexarc.inventory import entries
from reflexarc.inventory.places import places
from reflexarc.machine.audit import AuditLog
from reflexarc.mcp.protocol import Server
from reflexarc.mcp.server import build
from reflexarc.runs.granting import GrantBook

MODES = ("auto", "legacy")
PATIENCE = 30.0
TREE: list[dict[str, object]] = [
    {"ref": 1, "role": "AXButton", "name": "Build", "actions": ["AXPress"], "area": [600, 300, 200, 100],
     "path": ["Maker"], "enabled": True},
    {"ref": 2, "role": "AXTextField", "name": "Target", "value": "all", "path": ["Maker"], "enabled": True},
    {"ref": 3, "role": "AXButton", "name": "Stop", "actions": ["AXPress"], "path": ["Maker"], "enabled": False},
    {"ref": 4, "role": "AXButton", "name": "Stop", "actions": ["AXPress"], "path": ["Other"], "enabled": True},
]  # fmt: skip
GUEST: dict[str, object] = {
    "commands": {
        "uname -r": {"stdout": "6.1.0-57-cloud-amd64\n"},
        "false": {"stderr": "no\u001b[2J\n", "status": 1},
        "long": {"stdout": "".join(f"line {n}\n" for n in range(20_000))},
    },
    "files": {"/etc/hostname": "lab\n"},
    "apps": ["Maker"],
    "elements": TREE,
}
HELD: dict[str, object] = {"name": "holds", "steps": [{"name": "x", "wait_for": "memtest", "timeout": 0.2}]}
UP: dict[str, object] = {"name": "up", "steps": [STEPS[0], {"name": "menu", "wait_for": "grub_menu"}]}
WHOLE: dict[str, object] = {
    "name": "boots",
    "steps": [*STEPS[:3], {"name": "up", "wait_for": "login_prompt"}],
}


def write_lab(folder: Path, *allowed: str, tree: bool = False) -> Path:
    """An inventory with the played machine `lab` and a still desktop `desk`, and what agents may do with them.

    desk: 2048x1024 pixels; Enter makes its screen 800x600. tree: whether a desktop answers inside of it.
    """
    write_recording(folder)
    desk = folder / "desk"
    desk.mkdir()
    _picture(desk / "large.png", 2048, 1024)
    _picture(desk / "small.png", 800, 600)
    inside = {**GUEST, "elements": TREE if tree else None, "apps": ["Maker"] if tree else []}
    lines: list[object] = [
        {"at": 0, "frame": "large.png", "power": "on"},
        {"guest": {key: value for key, value in inside.items() if value is not None}},
        {"on": {"key": "enter"}, "frame": "small.png", "repeat": True},
    ]
    (desk / "recording.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "media").mkdir()
    (folder / "media" / "a.iso").write_bytes(b"an image")
    allow = json.dumps(list(allowed or ("observe",)))
    tables = [
        f'[machines.{name}]\ndrivers = ["replay"]\nmedia = ["media"]\nallow = {{people = ["*"], agents = {allow}}}\n'
        f'replay = {{recording = "{recording}", speed = 1.0}}\n'
        for name, recording in (("lab", "recording"), ("desk", "desk"))
    ]
    inventory = folder / "reflexarc.toml"
    inventory.write_text("\n".join(tables))
    return inventory


def _picture(path: Path, width: int, height: int) -> None:
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[height // 4 : height // 2, width // 4 : width // 2] = (20, 120, 220)
    Image.fromarray(pixels).save(path)


def give(inventory: Path, machine: str, **calls: str | None) -> None:
    """Grant direct calls in advance, as `reflexarc grant` does; `_` stands for the dot of an operation."""
    entry = entries.load(inventory).entry(machine)
    named = {name.replace("__", "."): argument for name, argument in calls.items()}
    GrantBook(places().grants).give(
        machine=machine, place=entry.place, operations=tuple(named), seconds=60, by="a person", calls=named
    )


def audited(operation: str = "") -> list[Mapping[str, object]]:
    """The audit log's lines on an operation."""
    lines = AuditLog(places().audit).read()
    return [line for line in lines if operation in ("", line["operation"])]


def words(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def pictures(result: CallToolResult) -> list[str]:
    return [block.data for block in result.content if isinstance(block, ImageContent)]


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    return result


async def values(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured values of a call that succeeds."""
    result = await call(client, tool, **arguments)
    assert not result.is_error, words(result)
    assert result.structured_content is not None
    found: dict[str, Any] = result.structured_content
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured values of a call that fails, and its words."""
    result = await call(client, tool, **arguments)
    assert result.is_error, words(result)
    return {**(result.structured_content or {}), "words": words(result)}


async def offers_elements(client: Client, lists: int = 20) -> bool:
    """Tell whether `computer` offers actions on elements in one of so many lists; each gives agents a little time."""
    for _ in range(lists):
        (computer,) = (tool for tool in (await client.list_tools()).tools if tool.name == "computer")
        if "ax_press" in computer.input_schema["properties"]["action"]["enum"]:
            return True
    return False


@asynccontextmanager
async def inside(
    inventory: Path, mode: Any = "auto", *, dry_run: bool = False, asked: ElicitationFnT | None = None
) -> AsyncIterator[Client]:
    """A client of a server in this process. asked: its person, where it shows forms."""
    server: Server = build(inventory, dry_run=dry_run)
    async with Client(server, mode=mode, elicitation_callback=asked) as client:
        yield client


async def says_yes(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """A client that accepts whatever its person is asked."""
    return ElicitResult(action="accept", content={})


def start(inventory: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "reflexarc", "mcp", "--inventory", str(inventory), *more]


def over_stdio(
    inventory: Path, mode: Any = "auto", *more: str, asked: ElicitationFnT | None = None
) -> Client:
    """A client of a server that is its child. asked: its person, where it shows forms."""
    first, *rest = start(inventory, *more)
    target = StdioServerParameters(command=first, args=rest, env=dict(os.environ))
    return Client(target, mode=mode, elicitation_callback=asked)


@contextmanager
def http_server(inventory: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str], Path]]:
    """A server over HTTP: its address, its process, the file of what it says on standard error."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = inventory.parent / "stderr"
    with said.open("w") as file:
        process = subprocess.Popen(
            start(inventory, "--http", f"127.0.0.1:{port}", *more), stderr=file, text=True
        )
    try:
        asyncio.run(_listening(port, process))
        yield f"http://127.0.0.1:{port}/mcp", process, said
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


async def _listening(port: int, process: subprocess.Popen[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            assert process.poll() is None, "the server ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return


@asynccontextmanager
async def with_token(address: str, token: str, mode: Any = "auto") -> AsyncIterator[Client]:
    """A client that brings a bearer token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        yield client


def boot_menu(path: Path) -> None:
    """A picture of GRUB's menu."""
    rgb = menu(0).astype("<u4").view("u1").reshape(*menu(0).shape, 4)[..., 2::-1]
    Image.fromarray(rgb.copy()).save(path)


__all__: Sequence[str] = (
    "GUEST",
    "HELD",
    "MODES",
    "TREE",
    "UP",
    "WHOLE",
    "audited",
    "boot_menu",
    "call",
    "give",
    "http_server",
    "inside",
    "offers_elements",
    "over_stdio",
    "pictures",
    "refused",
    "says_yes",
    "start",
    "values",
    "with_token",
    "words",
    "write_lab",
)  # fmt: skip
