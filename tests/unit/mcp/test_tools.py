"""What a client is told of the server: tools with schemas and annotations as they are pinned, resources, prompts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.agents import running
from tests.mcp_lab import MODES, inside, offers_elements, values, write_lab

GOLDEN = Path(__file__).parent / "tools.json"
MAX_TOOLS = 24_000
ON_ELEMENTS = {"ax_dump", "ax_find", "ax_element_at", "ax_press", "ax_action", "ax_set_value", "ax_focus", "ax_wait",
               "launch_app"}  # fmt: skip


async def listed(inventory: Path, mode: str, look_at: str | None = None) -> list[dict[str, Any]]:
    async with inside(inventory, mode) as client:
        if look_at is not None:
            await values(client, "observe", machine=look_at)
        await offers_elements(client, 5)
        found = await client.list_tools()
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in found.tools]


@pytest.mark.parametrize("mode", MODES)
def test_names_schemas_and_annotations_are_as_pinned(tmp_path: Path, mode: str) -> None:
    found = asyncio.run(listed(write_lab(tmp_path, tree=True), mode, "desk"))
    assert found == json.loads(GOLDEN.read_text())
    assert len(json.dumps(found)) <= MAX_TOOLS


@pytest.mark.parametrize(
    ("settings", "some"),
    [
        ('drivers = ["qemu"]\nqemu = {}', False),
        ('drivers = ["qemu", "agent"]\nqemu = {vsock = true}\nagent = {enabled = true}', False),
        ('drivers = ["agent"]\nagent = {enabled = true, transport = "unix", path = "nobody"}', False),
        ('drivers = ["agent"]\nagent = {enabled = true, transport = "unix", path = "agent"}', True),
        ('drivers = ["agent"]\nagent = {enabled = false, transport = "unix", path = "agent"}', False),
        ('drivers = ["ssh"]\nssh = {host = "lab"}', False),
    ],
)
def test_actions_on_elements_are_told_only_while_an_agent_answers(
    tmp_path: Path, settings: str, some: bool
) -> None:
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(f"[machines.one]\n{settings}\n")
    with running(tmp_path / "agent", extra={"HOME": str(tmp_path)}):
        (computer,) = (tool for tool in asyncio.run(listed(inventory, "auto")) if tool["name"] == "computer")
    schema = computer["inputSchema"]["properties"]
    assert (set(schema["action"]["enum"]) & ON_ELEMENTS == ON_ELEMENTS) is some
    assert ("ref" in schema, "value" in schema, "ax_dump" in computer["description"]) == (some, some, some)
    assert {"screenshot", "left_click", "type", "zoom"} <= set(schema["action"]["enum"])


def test_an_open_machine_tells_better_than_its_drivers(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, tree=True)
    for look_at, some in ((None, False), ("desk", True), ("lab", False)):
        tools = asyncio.run(listed(inventory, "auto", look_at))
        (computer,) = (tool for tool in tools if tool["name"] == "computer")
        assert ("ax_press" in computer["inputSchema"]["properties"]["action"]["enum"]) is some


def test_without_an_inventory_the_tools_are_there_and_say_what_is_missing(tmp_path: Path) -> None:
    async def ask() -> None:
        async with inside(tmp_path / "none.toml") as client:
            assert len((await client.list_tools()).tools) == 15
            result = await client.call_tool("machines", {})
            assert result.is_error
            assert "none.toml" in str(result.structured_content)

    asyncio.run(ask())


@pytest.mark.parametrize("mode", MODES)
def test_resources_prompts_and_completions(tmp_path: Path, mode: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path), mode) as client:
            assert sorted(str(r.uri) for r in (await client.list_resources()).resources) == [
                "reflexarc://playbook-format", "reflexarc://runs",
            ]  # fmt: skip
            templates = (await client.list_resource_templates()).resource_templates
            assert sorted(template.uri_template for template in templates) == [
                "reflexarc://outputs/{name}/{part}", "reflexarc://runs/{run_id}",
                "reflexarc://runs/{run_id}/frames/{name}", "reflexarc://runs/{run_id}/report",
            ]  # fmt: skip
            prompts = (await client.list_prompts()).prompts
            assert [prompt.name for prompt in prompts] == [
                "drive-a-machine", "write-a-playbook", "answer-an-escalation",
            ]  # fmt: skip
            told = await client.get_prompt("drive-a-machine", {"machine": "lab", "goal": "boot"})
            assert "'lab': boot" in told.messages[0].content.text  # type: ignore[union-attr]
            (schema,) = (await client.read_resource("reflexarc://playbook-format")).contents
            assert "wait_for" in json.dumps(json.loads(schema.text))  # type: ignore[union-attr]

    asyncio.run(ask())
