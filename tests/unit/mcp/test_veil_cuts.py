"""No part of a secret is told where a result is cut, encoded or quoted: what is masked is masked whole, and first."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.mcp_lab import call, inside, words, write_lab
from tests.unit.mcp.test_veil import HELD

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session
from reflexarc.mcp.guest import HEAD, SHOWN, TAIL
from reflexarc.mcp.veil import WITHHELD

SECRET = "Tr0ub4 it's\\dor horse"
PARTS = (SECRET[:10], SECRET[-10:])
FILES = {"plain": f"pw={SECRET}\n", "control": f"\x1b[1m{SECRET}\n"}
COMMANDS = {
    **{f"head {at}": "x" * (HEAD - at) + SECRET + "y" * 9_000 for at in (5, 10, 15)},
    **{f"tail {at}": "x" * 9_000 + SECRET + "y" * (TAIL - at) for at in (5, 10, 15)},
    **{f"progress {at}": "x" * 300 + SECRET + "y" * (SHOWN - at) for at in (5, 10, 15)},
}
NAMED = [
    {"ref": number, "role": "AXButton", "name": name, "value": value, "enabled": True, "path": ["Maker"],
     "actions": ["AXPress"]}
    for number, (name, value) in enumerate(
        [*(("x" * (80 - at) + SECRET, "v") for at in (5, 10, 15)),
         *(("v", "x" * (80 - at) + SECRET) for at in (10, 20)),
         (f"Save {SECRET}", SECRET), (f"Save {SECRET}", SECRET)], start=1)
]  # fmt: skip


def write_told(folder: Path) -> Path:
    inventory = write_lab(folder, "*", tree=True)
    guest = {"elements": NAMED, "apps": ["Maker"], "files": {f"/{name}": text for name, text in FILES.items()},
             "commands": {name: {"stdout": text} for name, text in COMMANDS.items()}}  # fmt: skip
    lines = [{"at": 0, "frame": "large.png", "power": "on"}, {"guest": guest}]
    (folder / "desk" / "recording.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "secret").write_text(SECRET)
    return inventory


async def hold(inventory: Path, **given: Any) -> None:
    async with open_session(entries.load(inventory).entry("desk"), holder="a person") as session:
        run = await session.begin(HELD, by="a person", **given)
        await run.drive()
        run.release()


async def told(client: Client, tool: str, **arguments: Any) -> str:
    """All that a call says: its words, values, progress, and what its Base64 stands for."""
    said: list[str] = []

    async def told_so(progress: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    answer = await client.call_tool(tool, {"machine": "desk", **arguments}, progress_callback=told_so)
    values = answer.structured_content or {}
    encoded = str(values.get("base64", ""))
    said.append("" if encoded == WITHHELD else base64.b64decode(encoded).decode())
    return "\n".join([*said, words(answer), *map(str, values.values())])


CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("files", {"action": "read", "path": f"/{name}"}) for name in FILES),
    *(("exec", {"command": name}) for name in COMMANDS),
    ("computer", {"action": "ax_find", "role": "AXButton"}), ("computer", {"action": "ax_dump"}),
    ("computer", {"action": "ax_press", "role": "AXButton"}), ("observe", {"outline": True}),
]  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_no_part_of_a_secret_is_told(tmp_path: Path, known: bool) -> None:
    inventory = write_told(tmp_path)

    async def ask() -> None:
        async with inside(inventory) as client:
            open_to_all = [await told(client, tool, **arguments) for tool, arguments in CALLS]
            bare = [
                call
                for call, said in zip(CALLS, open_to_all, strict=True)
                if not any(part in said for part in PARTS)
            ]
            assert len(bare) == 2  # of those that end, or begin, with a quarter of it
            if known:
                await hold(inventory, secret_references={"p": f"file:{tmp_path / 'secret'}"})
            else:
                await hold(inventory, secret_values={"p": SECRET})
            for tool, arguments in CALLS:
                said = await told(client, tool, **arguments)
                assert [part for part in PARTS if part in said] == [], (tool, arguments)
                assert ("****" if known else WITHHELD) in said or "the ref that ax_find tells" in said

    asyncio.run(ask())


def test_a_file_without_the_secret_is_told_as_it_is(tmp_path: Path) -> None:
    inventory = write_told(tmp_path)

    async def ask() -> None:
        await hold(inventory, secret_references={"p": f"file:{tmp_path / 'secret'}"})
        async with inside(inventory) as client:
            data = bytes(range(256))
            encoded = base64.b64encode(data).decode()
            await call(client, "files", machine="desk", action="write", path="/x", base64=encoded)
            read = await call(client, "files", machine="desk", action="read", path="/x")
            assert (read.structured_content or {})["base64"] == encoded

    asyncio.run(ask())
