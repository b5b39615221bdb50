"""Runs over MCP: begun, held, answered, cancelled, gone on with by another server; the journal is what they are."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from PIL import Image
from tests.mcp_lab import (
    HELD,
    MODES,
    UP,
    WHOLE,
    audited,
    call,
    inside,
    pictures,
    refused,
    values,
    words,
    write_lab,
)
from tests.played import STEPS

from reflexarc.inventory.places import places
from reflexarc.playbook.grants import granted_keys
from reflexarc.runs.granting import GrantBook
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.run import abort

MAY = ("observe", "input", "power.on")
LONG: dict[str, Any] = {
    "name": "long",
    "steps": [STEPS[0], {"name": "x", "wait_for": "memtest", "timeout": 60}],
}


async def held(client: Client, **more: Any) -> dict[str, Any]:
    ran = await values(client, "run_playbook", machine="lab", playbook=HELD, wait=30, **more)
    assert ran["outcome"] == "held", ran
    return ran


async def reply(client: Client, ran: dict[str, Any], kind: str, **more: Any) -> dict[str, Any]:
    return await values(
        client, "reply_escalation", run_id=ran["run_id"], escalation_id=ran["escalation"]["escalation_id"], reply=kind,
        **{"wait": 30, **more},
    )  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_playbook_runs_to_its_end_and_tells_its_steps(tmp_path: Path, mode: str) -> None:
    told: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def ask() -> None:
        async with inside(write_lab(tmp_path, *MAY), mode) as client:
            arguments = {"machine": "lab", "playbook": WHOLE, "wait": 60}
            result = await client.call_tool("run_playbook", arguments, progress_callback=progress)
            ran: dict[str, Any] = result.structured_content or {}
            assert (ran["outcome"], ran["playbook"], ran["step_name"]) == ("succeeded", "boots", "up")
            assert ran["telemetry"]["vision_calls"] == 0
            assert words(result).startswith(f"Run {ran['run_id']} (boots on lab): succeeded")
            (report,) = (await client.read_resource(f"reflexarc://runs/{ran['run_id']}/report")).contents
            assert "boots" in report.text  # type: ignore[union-attr]
            (listed,) = (await client.read_resource("reflexarc://runs")).contents
            assert json.loads(listed.text)[0]["outcome"] == "succeeded"  # type: ignore[union-attr]

    asyncio.run(ask())
    assert "step 2 of 4: second entry" in told
    assert all(str(message).startswith("step ") for message in told)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_is_held_shown_answered_and_finished(tmp_path: Path, mode: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, *MAY), mode) as client:
            result = await call(client, "run_playbook", machine="lab", wait=30,
                                playbook={**UP, "steps": [*UP["steps"], *HELD["steps"]]})  # type: ignore[misc]  # fmt: skip
            ran: dict[str, Any] = result.structured_content or {}
            asked = ran["escalation"]
            assert (asked["reason"], asked["observed_phase"], asked["step_index"]) == (
                "timeout",
                "grub_menu",
                2,
            )
            assert "GNU GRUB" in asked["text"]
            assert asked["replies"] == ["resume", "amend", "act", "teach", "abort"]
            (picture,) = pictures(result)
            assert Image.open(io.BytesIO(base64.b64decode(picture))).size == (720, 400)
            frame = f"reflexarc://runs/{ran['run_id']}/frames/{asked['frame']['ref']}"
            (kept,) = (await client.read_resource(frame)).contents
            assert kept.blob == picture  # type: ignore[union-attr]
            assert "It asks (escalation 1): timeout." in words(result)
            assert (await values(client, "run_status", run_id=ran["run_id"]))["escalation"] == asked
            assert (await values(client, "run_wait", run_id=ran["run_id"], timeout=5))["outcome"] == "held"
            # A played machine begins anew with each session: it is off when the run goes on.
            acted = await reply(client, ran, "act", steps=[{"name": "on again", "action": "power_on"}])
            assert (acted["outcome"], acted["escalation"]["escalation_id"]) == ("held", 2)
            done = await reply(client, acted, "amend", playbook=WHOLE, resume_at="on")
            assert (done["outcome"], done["step_name"], done["escalation"]) == ("succeeded", "up", None)
            late = await refused(
                client, "reply_escalation", run_id=ran["run_id"], escalation_id=2, reply="resume"
            )
            assert late["error"] == "RunError"

    asyncio.run(ask())
    assert [line["keys"] for line in audited("keyboard.press")] == [["down"], ["enter"]]
    assert {line["who"] for line in audited()} == {"agent mcp"}


@pytest.mark.parametrize("mode", MODES)
def test_a_run_goes_on_from_a_screen_that_it_was_taught(tmp_path: Path, mode: str) -> None:
    waits = {"name": "waits", "unknown_after": 1, "steps": [{"name": "x", "wait_for": "os_running"}]}

    async def ask() -> None:
        async with inside(write_lab(tmp_path, "observe", "input"), mode) as client:
            ran = await values(client, "run_playbook", machine="desk", playbook=waits, wait=30)
            asked = ran["escalation"]
            uri = f"reflexarc://runs/{ran['run_id']}/frames/{asked['frame']['ref']}"
            (kept,) = (await client.read_resource(uri)).contents
            part = io.BytesIO()
            whole = Image.open(io.BytesIO(base64.b64decode(kept.blob)))  # type: ignore[union-attr]
            whole.crop((500, 240, 540, 280)).save(part, "PNG")
            needle = base64.b64encode(part.getvalue()).decode()
            wrong = {"run_id": ran["run_id"], "escalation_id": 1, "reply": "teach", "phase": "os_running"}
            assert "PNG" in (await refused(client, "reply_escalation", needle="R0lGODlh", **wrong))["message"]
            done = await reply(client, ran, "teach", phase="os_running", needle=needle)
            assert (done["outcome"], done["telemetry"]["escalations"]) == ("succeeded", {"unknown_phase": 1})

    asyncio.run(ask())


@pytest.mark.parametrize("kind", ["path", "name", "yaml", "json"])
def test_a_playbook_is_named_or_given(tmp_path: Path, kind: str) -> None:
    inventory = write_lab(tmp_path, *MAY)
    (tmp_path / "up.yaml").write_text(json.dumps(UP, indent=1))
    given = {
        "path": str(tmp_path / "up.yaml"), "name": "up", "yaml": "name: up\nsteps:\n- {name: x, wait_for: power_off}\n",
        "json": json.dumps(UP, indent=1),
    }  # fmt: skip

    async def ask() -> None:
        async with inside(inventory) as client:
            ran = await values(client, "run_playbook", machine="lab", playbook=given[kind], wait=30)
            assert (ran["outcome"], ran["playbook"]) == ("succeeded", "up")

    asyncio.run(ask())


def test_variables_are_given_and_secrets_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", "open sesame 7")
    wants = {"vars": {"key": {"required": True}}, "name": "v", "steps": [
        STEPS[0], {"name": "k", "wait_for": "grub_menu", "action": "type_text", "args": {"text": "{{ key }}"}},
    ]}  # fmt: skip
    secret = {"name": "s", "vars": {"p": {"secret": True}},
              "steps": [{"name": "t", "action": "type_text", "args": {"text": "{{ p }}"}}]}  # fmt: skip

    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*")) as client:
            ran = await values(
                client, "run_playbook", machine="lab", playbook=wants, vars={"key": "down"}, wait=30
            )
            assert ran["outcome"] == "succeeded"
            for given in ({"p": "env:HOST_SECRET"}, {}, {"p": "file:/etc/shadow"}):
                failed = await refused(client, "run_playbook", machine="lab", playbook=secret, vars=given)
                assert failed["error"] == "PlaybookError"

    asyncio.run(ask())
    assert [line["text"] for line in audited("keyboard.type")] == ["down"]


def test_a_held_run_outlives_its_server_and_another_one_goes_on(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, *MAY)

    async def begin() -> dict[str, Any]:
        async with inside(inventory) as client:
            return await held(client)

    async def go_on(ran: dict[str, Any]) -> dict[str, Any]:
        async with inside(inventory) as client:
            assert (await values(client, "run_status", run_id=ran["run_id"]))["outcome"] == "held"
            return await reply(client, ran, "amend", playbook=UP, resume_at=0)

    assert asyncio.run(go_on(asyncio.run(begin())))["outcome"] == "succeeded"


def test_a_run_whose_server_ends_is_interrupted_and_resumed_by_another(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, *MAY)

    async def begin() -> str:
        async with inside(inventory) as client:
            ran = await values(client, "run_playbook", machine="lab", playbook=LONG, wait=0)
            assert ran["outcome"] == "running"
            return str(ran["run_id"])

    async def go_on(run_id: str) -> None:
        async with inside(inventory) as client:
            result = await call(client, "run_status", run_id=run_id)
            assert (result.structured_content or {})["outcome"] == "interrupted"
            assert "reply_escalation with resume goes on with it" in words(result)
            for kind in ("abort", "act"):
                await refused(client, "reply_escalation", run_id=run_id, escalation_id=0, reply=kind)
            on = await values(
                client, "reply_escalation", run_id=run_id, escalation_id=0, reply="resume", wait=0
            )
            assert on["outcome"] == "running"
            ended = await values(client, "cancel_run", run_id=run_id, reason="enough")
            assert (ended["outcome"], ended["reason"]) == ("aborted", "enough")
            assert (await refused(client, "cancel_run", run_id=run_id))["error"] == "RunError"

    asyncio.run(go_on(asyncio.run(begin())))


def test_two_servers_share_a_held_run_and_only_one_answer_counts(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, *MAY)

    async def ask() -> None:
        async with inside(inventory) as one, inside(inventory) as other:
            ran = await held(one)
            answers = await asyncio.gather(*(
                call(client, "reply_escalation", run_id=ran["run_id"], escalation_id=1, reply="amend", playbook=UP,
                     resume_at=0, wait=30)
                for client in (one, other)
            ))  # fmt: skip
            assert sorted(bool(answer.is_error) for answer in answers) == [False, True]
            for client in (one, other):
                ended = await values(client, "run_wait", run_id=ran["run_id"], timeout=30)
                assert ended["outcome"] == "succeeded"

    asyncio.run(ask())


def test_a_person_ends_the_run_that_an_agent_began(tmp_path: Path) -> None:
    async def at_end(run_id: str) -> None:
        await asyncio.sleep(0)

    async def ask() -> None:
        async with inside(write_lab(tmp_path, *MAY)) as client:
            ran = await held(client)
            with closing(Journal(places().journal)) as journal:
                await abort(journal, places().runs, ran["run_id"], "no more", by="a person", at_end=at_end)
            assert (await values(client, "run_status", run_id=ran["run_id"]))["outcome"] == "aborted"

    asyncio.run(ask())


def test_while_a_run_advances_direct_calls_wait_their_turn(tmp_path: Path) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, *MAY)) as client:
            ran = await values(client, "run_playbook", machine="lab", playbook=LONG, wait=0)
            busy = await refused(client, "power", machine="lab", action="on")
            assert busy["error"] == "MachineBusyError"
            assert "a run of an agent (MCP)" in busy["message"]
            second = await refused(client, "run_playbook", machine="lab", playbook=UP)
            assert second["error"] in ("MachineBusyError", "RunError")
            await values(client, "observe", machine="lab")
            await values(client, "cancel_run", run_id=ran["run_id"])
            await values(client, "power", machine="lab", action="on")

    asyncio.run(ask())


def test_a_destructive_step_asks_for_a_grant_that_no_agent_gives(tmp_path: Path) -> None:
    down: dict[str, Any] = {
        "name": "down", "authorize": {"destructive": True, "ops": ["power.cycle"]},
        "steps": [{"name": "again", "wait_for": "power_off", "action": "hard_cycle", "destructive": True}],
    }  # fmt: skip

    async def ask() -> None:
        async with inside(write_lab(tmp_path, *MAY, "power.cycle")) as client:
            ran = await values(client, "run_playbook", machine="lab", playbook=down, wait=30)
            assert ran["escalation"]["reason"] == "needs_authorization"
            again = await reply(client, ran, "resume")
            assert again["escalation"]["reason"] == "needs_authorization"
            with closing(Journal(places().journal)) as journal:
                state = Ledger.open(journal, ran["run_id"]).state
            GrantBook(places().grants).give(
                machine="lab", place=state.place, operations=("power.cycle",), seconds=60, by="a person",
                run=ran["run_id"], keys=granted_keys(state.playbook.steps, ["power.cycle"], state.key_of, most=1),
            )  # fmt: skip
            assert [line for line in audited("power.cycle") if line["allowed"]] == []
            assert (await reply(client, again, "resume"))["outcome"] == "succeeded"

    asyncio.run(ask())
    assert [line["who"] for line in audited("power.cycle") if line["allowed"]] == ["agent mcp"]


def test_who_may_only_look_answers_no_run(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path)

    async def ask() -> None:
        async with inside(inventory) as client:
            ran = await held(client)
            for kind in ("resume", "abort"):
                failed = await refused(
                    client, "reply_escalation", run_id=ran["run_id"], escalation_id=1, reply=kind
                )
                assert (failed["rule"], failed["operation"]) == ("allow.agents", "run.reply")
                assert "a person must answer" in failed["message"]
            assert (await refused(client, "cancel_run", run_id=ran["run_id"]))["rule"] == "allow.agents"

    asyncio.run(ask())


def test_a_run_that_is_none_is_an_error_everywhere(tmp_path: Path) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*")) as client:
            for run_id in ["", "none", "../../etc", "x\0y", "%2e%2e", "*" * 64]:
                for tool, more in (
                    ("run_status", {}), ("run_wait", {}), ("cancel_run", {}),
                    ("reply_escalation", {"escalation_id": 1, "reply": "resume"}),
                ):  # fmt: skip
                    assert (await refused(client, tool, run_id=run_id, **more))["error"] == "RunError"
                for uri in (f"runs/{run_id}x", f"runs/{run_id}x/report", f"runs/{run_id}x/frames/a.png"):
                    with pytest.raises(MCPError):
                        await client.read_resource(f"reflexarc://{uri}")

    asyncio.run(ask())
