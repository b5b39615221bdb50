"""The audit log says which client asked, and has a line for each refusal, also for those that no guard saw."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import Implementation
from tests.mcp_lab import HELD, MODES, audited, call, inside, refused, values, write_lab

from reflexarc.mcp.server import build

UNSEEN: list[tuple[str, str, str, dict[str, Any]]] = [
    ("ConfigError", "tool.power", "none", {"tool": "power", "machine": "none", "action": "off"}),
    ("ConfigError", "tool.observe", "none", {"tool": "observe", "machine": "none"}),
    (
        "ConfigError",
        "tool.run_playbook",
        "lab",
        {"tool": "run_playbook", "machine": "lab", "playbook": "../x.yaml"},
    ),
    ("ConfigError", "tool.playbooks", "", {"tool": "playbooks", "action": "show", "playbook": "/etc/passwd"}),
    (
        "PlaybookError",
        "tool.run_playbook",
        "lab",
        {"tool": "run_playbook", "machine": "lab", "playbook": {"name": "x"}},
    ),
    ("ConfigError", "tool.media", "desk", {"tool": "media", "machine": "desk", "action": "insert"}),
    ("ConfigError", "tool.snapshot", "desk", {"tool": "snapshot", "machine": "desk", "action": "restore"}),
    ("arguments", "tool.power", "desk", {"tool": "power", "machine": "desk", "action": "explode"}),
    ("arguments", "tool.power", "", {"tool": "power", "action": "off"}),
    ("arguments", "tool.erase_disk", "desk", {"tool": "erase_disk", "machine": "desk"}),
    ("RunError", "tool.run_status", "", {"tool": "run_status", "run_id": "none"}),
]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_refused_before_a_guard_has_one_line_too(tmp_path: Path, mode: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*"), mode) as client:
            for why, operation, machine, given in UNSEEN:
                arguments = {key: value for key, value in given.items() if key != "tool"}
                await refused(client, given["tool"], **arguments)
                line = audited()[-1]
                assert (line["why"], line["operation"], line["machine"]) == (why, operation, machine)
                assert (line["who"], line["allowed"], line["tool"]) == ("agent mcp", False, given["tool"])

    asyncio.run(ask())
    assert len([line for line in audited() if not line["allowed"]]) == len(UNSEEN)


def test_a_stale_or_second_answer_has_a_line_that_names_the_run(tmp_path: Path) -> None:
    async def ask() -> str:
        async with inside(write_lab(tmp_path, "*")) as client:
            run_id = (await values(client, "run_playbook", machine="lab", playbook=HELD, wait=20))["run_id"]
            await refused(client, "reply_escalation", run_id=run_id, escalation_id=7, reply="resume")
            await values(client, "cancel_run", run_id=run_id)
            await refused(client, "reply_escalation", run_id=run_id, escalation_id=1, reply="abort")
            return str(run_id)

    run_id = asyncio.run(ask())
    lines = audited("tool.reply_escalation")
    assert [(line["why"], line["run"]) for line in lines] == [("RunError", run_id)] * 2


@pytest.mark.parametrize("mode", MODES)
def test_resources_that_there_are_none_of_are_refusals_too(tmp_path: Path, mode: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*"), mode) as client:
            run_id = (await values(client, "run_playbook", machine="lab", playbook=HELD, wait=20))["run_id"]
            for uri in (f"reflexarc://runs/{run_id}/frames/..%2Fjournal.png", "reflexarc://outputs/x/0"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)

    asyncio.run(ask())
    lines = audited("tool.resource")
    assert [(line["why"], line["allowed"]) for line in lines] == [("ResourceError", False)] * 2


def test_agents_that_may_only_look_are_written_down_when_they_answer_a_run(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "observe", "input")

    async def ask() -> None:
        async with inside(inventory) as client:
            run_id = (await values(client, "run_playbook", machine="lab", playbook=HELD, wait=20))["run_id"]
            inventory.write_text(inventory.read_text().replace(', "input"', ""))
            await refused(client, "cancel_run", run_id=run_id)

    asyncio.run(ask())
    (line,) = audited("run.reply")
    assert (line["why"], line["tool"], line["allowed"]) == ("allow.agents", "cancel_run", False)


def test_a_line_says_which_arguments_are_wrong_and_not_what_is_in_them(tmp_path: Path) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*")) as client:
            await refused(client, "exec", machine="desk", command="x", timeout="a-password", env="a-password")

    asyncio.run(ask())
    (line,) = audited("tool.exec")
    assert line["problem"] == "timeout: float_parsing; env: dict_type"
    assert "a-password" not in str(line)


def test_what_merely_failed_is_no_refusal(tmp_path: Path) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*")) as client:
            await refused(client, "files", machine="desk", action="read", path="/none")
            assert (await call(client, "computer", machine="desk", action="ax_dump")).is_error

    asyncio.run(ask())
    assert [line for line in audited() if not line["allowed"]] == []


@pytest.mark.parametrize("mode", MODES)
def test_clients_are_told_apart_and_cannot_write_other_fields(tmp_path: Path, mode: Any) -> None:
    names = ["one", "two\n\u001b[2J who=person allowed=True", "x" * 5_000]

    async def ask() -> None:
        server = build(write_lab(tmp_path, "observe", "input"))
        for name in names:
            known = Implementation(name=name, version="1")
            async with Client(server, mode=mode, client_info=known) as client:
                await values(client, "computer", machine="desk", action="key", text="a")
                await refused(client, "power", machine="desk", action="off")
                await refused(client, "power", machine="none")

    asyncio.run(ask())
    told = [
        line["client"]
        for line in audited()
        if line["operation"] in ("keyboard.press", "power.off", "tool.power")
    ]
    assert told == [
        name for name in ("one/1", "two_2J_who_person_allowed_True/1", "x" * 64) for _ in range(3)
    ]
    assert {line["who"] for line in audited()} == {"agent mcp"}


def test_a_run_is_of_the_client_that_began_it(tmp_path: Path) -> None:
    async def ask() -> None:
        server = build(write_lab(tmp_path, "*"))
        step = {"name": "on", "wait_for": "power_off", "action": "power_on"}
        async with Client(server, client_info=Implementation(name="one", version="1")) as client:
            begun = await values(
                client, "run_playbook", machine="lab", playbook={"name": "on", "steps": [step]}, wait=20
            )
            assert begun["outcome"] == "succeeded"

    asyncio.run(ask())
    (line,) = audited("power.on")
    assert (line["client"], line["step"]) == ("one/1", "on")
