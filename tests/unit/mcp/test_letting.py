"""What agents may do with runs that others began, and what the audit log tells of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference
from tests.mcp_lab import HELD, UP, audited, call, inside, refused, values, write_lab

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session
from reflexarc.inventory.places import places
from reflexarc.runs.journal import Journal

READS: list[tuple[str, dict[str, Any]]] = [("run_status", {}), ("run_wait", {"timeout": 0})]
ACTS: list[tuple[str, str, dict[str, Any]]] = [
    ("run.reply", "reply_escalation", {"escalation_id": 1, "reply": "resume"}),
    ("run.reply", "reply_escalation", {"escalation_id": 1, "reply": "abort"}),
    ("run.cancel", "cancel_run", {}),
]


async def persons_run(inventory: Path) -> str:
    """A run on the boot menu that a person began and that is held."""
    async with open_session(entries.load(inventory).entry("lab"), holder="a person") as session:
        run = await session.begin({**UP, "steps": [*UP["steps"], *HELD["steps"]]}, by="a person")  # type: ignore[misc]
        await run.drive()
        assert run.escalation is not None
        run.release()
        return run.id


def lines(*operations: str) -> Iterator[Mapping[str, object]]:
    return (line for line in audited() if line["operation"] in operations and line["who"] != "person")


async def listed(client: Client) -> list[dict[str, Any]]:
    (content,) = (await client.read_resource("reflexarc://runs")).contents
    found: list[dict[str, Any]] = json.loads(content.text)  # type: ignore[union-attr]
    return found


async def completed(client: Client) -> list[str]:
    reference = ResourceTemplateReference(uri="reflexarc://runs/{run_id}")
    return (await client.complete(reference, {"name": "run_id", "value": ""})).completion.values


@pytest.mark.parametrize("allowed", ["input", "observe.power"])
def test_who_may_not_look_reads_no_run(tmp_path: Path, allowed: str) -> None:
    inventory = write_lab(tmp_path, allowed)

    async def ask() -> None:
        run_id = await persons_run(inventory)
        async with inside(inventory) as client:
            for tool, more in READS:
                failed = await refused(client, tool, run_id=run_id, **more)
                assert (failed["rule"], failed["operation"]) == ("allow.agents", "observe.frames")
                assert "GNU GRUB" not in failed["words"]
            (picture,) = (path.name for path in (places().runs / run_id).glob("frame-*.png"))
            for uri in ("", "/report", f"/frames/{picture}"):
                with pytest.raises(MCPError, match="does not allow observe"):
                    await client.read_resource(f"reflexarc://runs/{run_id}{uri}")
            assert await listed(client) == []
            assert await completed(client) == []

    asyncio.run(ask())
    refusals = [line for line in lines("run.read") if not line["allowed"]]
    assert len(refusals) >= 4
    assert [line for line in lines("run.read") if line["allowed"]] == []


def test_who_may_look_reads_runs_and_touches_none(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path)

    async def ask() -> None:
        begun = {
            "machine": "lab",
            "playbook": {"name": "waits", "steps": [{"name": "x", "wait_for": "memtest"}]},
        }
        async with inside(inventory) as client:
            failed = await refused(client, "run_playbook", **begun)
            assert (failed["rule"], failed["operation"]) == ("allow.agents", "run.begin")
        run_id = await persons_run(inventory)
        async with inside(inventory) as client:
            assert (await values(client, "run_status", run_id=run_id))["outcome"] == "held"
            assert [row["run_id"] for row in await listed(client)] == await completed(client) == [run_id]
            for operation, tool, more in ACTS:
                failed = await refused(client, tool, run_id=run_id, **more)
                assert (failed["rule"], failed["operation"]) == ("allow.agents", operation)
            assert (await values(client, "run_status", run_id=run_id))["outcome"] == "held"

    asyncio.run(ask())
    told = [
        (line["operation"], line.get("run") is not None)
        for line in lines("run.begin", "run.reply", "run.cancel")
    ]
    assert told == [("run.begin", False), *((operation, True) for operation, _, _ in ACTS)]
    assert not any(line["allowed"] for line in lines("run.begin", "run.reply", "run.cancel"))


def test_the_log_tells_what_an_agent_ran_and_what_it_did_with_runs(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "observe", "input", "power.on", "shell")

    async def ask() -> None:
        async with inside(inventory) as client:
            await values(client, "exec", machine="desk", command="uname -r", env={"PW": "hidden value"})
            ran = await values(client, "run_playbook", machine="lab", playbook=HELD, wait=30)
            again = {"run_id": ran["run_id"], "escalation_id": 1, "reply": "resume", "wait": 30}
            await values(client, "reply_escalation", **again)
            await call(client, "reply_escalation", **again)
            await values(client, "cancel_run", run_id=ran["run_id"])

    asyncio.run(ask())
    (line,) = lines("shell.exec")
    assert (line["command"], line["env"]) == ("uname -r", ["PW"])
    assert "hidden value" not in places().audit.read_text()
    assert [(line["operation"], line.get("reply"), line["allowed"], line["who"])
            for line in lines("run.begin", "run.reply", "run.cancel")] == [
        ("run.begin", None, True, "agent mcp"), ("run.reply", "resume", True, "agent mcp"),
        ("run.reply", "resume", True, "agent mcp"), ("run.cancel", None, True, "agent mcp"),
    ]  # fmt: skip


def test_a_run_whose_inventory_is_gone_is_a_persons(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "*")
    other = write_lab(tmp_path / "other", "*")

    async def ask() -> None:
        run_id = await persons_run(inventory)
        inventory.unlink()
        async with inside(other) as client:
            for tool, more in [*READS, *((tool, more) for _, tool, more in ACTS)]:
                failed = await refused(client, tool, run_id=run_id, **more)
                assert failed["error"] == "ConfigError"
                assert f"`reflexarc runs abort {run_id}`" in failed["message"]
            assert await listed(client) == []

    asyncio.run(ask())
    with closing(Journal(places().journal)) as journal:
        assert [run.stage for run in journal.runs()] == ["held"]


@pytest.mark.parametrize("uri", ["", "/{run}", "/{run}/report", "/{run}/frames/a.png"])
def test_resources_say_why_they_cannot_be_read(tmp_path: Path, uri: str) -> None:
    inventory = write_lab(tmp_path)

    async def ask() -> None:
        run_id = await persons_run(inventory)
        for path in places().state.glob("runs.sqlite*"):
            path.write_bytes(b"no database, and long enough to be told from an empty one" * 50)
        async with inside(inventory) as client:
            with pytest.raises(MCPError, match=r"the journal of runs: .*move it away"):
                await client.read_resource(f"reflexarc://runs{uri.replace('{run}', run_id)}")
            assert await completed(client) == []

    asyncio.run(ask())


@pytest.mark.parametrize(("allowed", "asked"), [('["observe"]', True), ('["input"]', False), ("[]", False)])
def test_a_list_of_tools_asks_no_machine_that_agents_may_not_look_at(
    tmp_path: Path, allowed: str, asked: bool
) -> None:
    connected: list[object] = []

    def heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(reader)
        writer.close()

    async def ask() -> None:
        inventory = tmp_path / "reflexarc.toml"
        inventory.write_text(
            f'[machines.m]\ndrivers = ["agent"]\nallow = {{people = ["*"], agents = {allowed}}}\n'
            'agent = {enabled = true, transport = "unix", path = "agent"}\n'
        )
        async with await asyncio.start_unix_server(heard, tmp_path / "agent"), inside(inventory) as client:
            for _ in range(3):
                await client.list_tools()

    asyncio.run(ask())
    assert bool(connected) is asked
