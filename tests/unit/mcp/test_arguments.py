"""Arguments of tools: every one bounded, none dropped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.mcp_arguments import fitting_values, large, unbounded
from tests.mcp_lab import MODES, audited, inside, refused, values, write_lab

TOOLS: dict[str, dict[str, Any]] = {
    tool["name"]: tool["inputSchema"]
    for tool in json.loads((Path(__file__).parent / "tools.json").read_text())
}


def given(tool: str) -> dict[str, Any]:
    """The arguments that a tool needs, and no more."""
    schema = TOOLS[tool]
    named = {name: fitting_values(schema["properties"][name])[0] for name in schema.get("required", [])}
    return {**named, **({"machine": "desk"} if "machine" in named else {})}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_argument_has_bounds(tool: str) -> None:
    schema = TOOLS[tool]
    assert schema["additionalProperties"] is False
    assert [place for name, one in schema["properties"].items() for place in unbounded(one, name)] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_too_large_is_refused_before_anything_is_done(tmp_path: Path, tool: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*", tree=True)) as client:
            for name, schema in TOOLS[tool]["properties"].items():
                for value in large(schema):
                    failed = await refused(client, tool, **{**given(tool), name: value})
                    assert f"\n{name}" in failed["words"], (name, str(value)[:40])
                    assert "validation error" in failed["words"]

    asyncio.run(ask())
    assert {line["why"] for line in audited()} <= {"arguments"}


@pytest.mark.parametrize("mode", MODES)
def test_an_argument_that_a_tool_does_not_name_is_refused(tmp_path: Path, mode: str) -> None:
    async def ask(client: Client) -> None:
        for tool, schema in TOOLS.items():
            for name in ("actoin", "grant", "x" * 10_000, ""):
                failed = await refused(client, tool, **{**given(tool), name: "off"})
                assert failed["error"] == "ConfigError"
                assert failed["message"].startswith(f"{tool} takes no {name[:40]!r}, but")
                assert all(known in failed["message"] for known in schema["properties"])

    async def connected() -> None:
        async with inside(write_lab(tmp_path, "*"), mode) as client:
            await ask(client)
            assert (await values(client, "power", machine="desk"))["power"] == "on"

    asyncio.run(connected())
    lines = [line for line in audited() if not line["allowed"]]
    assert {line["why"] for line in lines} == {"ConfigError"}
    assert len(lines) == 4 * len(TOOLS)
