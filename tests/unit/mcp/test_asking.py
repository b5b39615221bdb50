"""A person at the client may be asked where a grant is wanting; what the client answers allows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from tests.mcp_lab import MODES, audited, call, give, refused, values, words, write_lab

from reflexarc.mcp.server import build

Told = list[str]


def person(
    told: Told, action: Any = "accept", meanwhile: Callable[[], None] = lambda: None
) -> ElicitationFnT:
    """A client that shows forms; its person does something meanwhile, then answers so."""

    async def asked(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        told.append(params.message)
        meanwhile()
        return ElicitResult(action=action, content={} if action == "accept" else None)

    return asked


def off(inventory: Path, mode: Any, asked: ElicitationFnT | None, patience: float = 20.0) -> CallToolResult:
    """Switch a machine off as an agent, with such a person."""

    async def ask() -> CallToolResult:
        server = build(inventory, patience=patience)
        async with Client(server, mode=mode, elicitation_callback=asked) as client:
            return await call(client, "power", machine="desk", action="off")

    return asyncio.run(ask())


def sent() -> list[object]:
    return [line["operation"] for line in audited("power.off") if line["allowed"]]


@pytest.mark.parametrize("mode", MODES)
def test_a_call_goes_on_once_its_person_granted_it_elsewhere(tmp_path: Path, mode: Any) -> None:
    inventory, told = write_lab(tmp_path, "*"), Told()
    result = off(inventory, mode, person(told, meanwhile=lambda: give(inventory, "desk", power__off=None)))
    assert not result.is_error, words(result)
    assert sent() == ["power.off"]
    (message,) = told
    assert f"    reflexarc grant desk power.off --inventory {inventory}\n" in message
    assert "Accepting alone allows nothing" in message


@pytest.mark.parametrize("mode", MODES)
def test_a_call_goes_on_once_its_operator_changed_the_policy(tmp_path: Path, mode: Any) -> None:
    inventory, told = write_lab(tmp_path, "observe"), Told()

    def allow() -> None:
        inventory.write_text(inventory.read_text().replace('"observe"', '"observe", "input"'))

    async def ask() -> CallToolResult:
        async with Client(
            build(inventory), mode=mode, elicitation_callback=person(told, meanwhile=allow)
        ) as client:
            return await call(client, "computer", machine="desk", action="key", text="a")

    assert not asyncio.run(ask()).is_error
    assert "or all of 'input', to allow.agents" in told[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("allowed", ["*", "observe"])
def test_a_client_that_says_yes_for_its_person_gains_nothing(tmp_path: Path, mode: Any, allowed: str) -> None:
    told = Told()
    result = off(write_lab(tmp_path, allowed), mode, person(told))
    rule = {"*": "no_grant", "observe": "allow.agents"}[allowed]
    assert (result.is_error, (result.structured_content or {})["rule"]) == (True, rule)
    assert len(told) == 1
    assert sent() == []
    assert [line["why"] for line in audited("power.off")] == [rule, rule]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_no_is_a_refusal_even_with_a_grant(tmp_path: Path, mode: Any, action: str) -> None:
    inventory, told = write_lab(tmp_path, "*"), Told()
    asked = person(told, action, meanwhile=lambda: give(inventory, "desk", power__off=None))
    result = off(inventory, mode, asked)
    assert result.is_error
    assert (result.structured_content or {})["rule"] in ("no_grant", "declined")
    assert sent() == []


@pytest.mark.parametrize("mode", MODES)
def test_a_client_without_forms_is_told_of_the_refusal(tmp_path: Path, mode: Any) -> None:
    result = off(write_lab(tmp_path, "*"), mode, None)
    assert (result.structured_content or {})["rule"] == "no_grant"


def test_a_client_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    async def silent(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        await asyncio.Event().wait()
        raise AssertionError

    result = off(write_lab(tmp_path, "*"), "legacy", silent, patience=0.2)
    assert (result.structured_content or {})["rule"] == "no_grant"


@pytest.mark.parametrize("mode", MODES)
def test_nobody_is_asked_twice_in_a_row(tmp_path: Path, mode: Any) -> None:
    told = Told()

    async def ask() -> None:
        async with Client(
            build(write_lab(tmp_path, "*")), mode=mode, elicitation_callback=person(told)
        ) as client:
            for action in ("off", "off", "reset", "off"):
                assert (await refused(client, "power", machine="desk", action=action))["rule"] == "no_grant"

    asyncio.run(ask())
    assert [message.split(" on ")[0] for message in told] == [
        "The agent asks for power.off",
        "The agent asks for power.reset",
    ]


def test_the_person_is_shown_a_command_that_says_what_the_grant_is_bound_to(tmp_path: Path) -> None:
    inventory, told = write_lab(tmp_path, "*"), Told()
    image = tmp_path / "media" / "it's; \u001b[2Jreboot.iso"
    image.write_bytes(b"an image")

    async def ask() -> None:
        async with Client(build(inventory), elicitation_callback=person(told)) as client:
            await values(client, "snapshot", machine="desk", action="save", name="a")
            for tool, arguments in (
                ("boot_device", {"device": "cdrom"}), ("boot_device", {"device": "disk", "once": False}),
                ("snapshot", {"action": "restore", "name": "a"}), ("media", {"action": "eject"}),
                ("media", {"action": "insert", "source": str(image)}),
            ):  # fmt: skip
                await refused(client, tool, machine="desk", **arguments)

    asyncio.run(ask())
    shown = [line.strip() for message in told for line in message.splitlines() if "reflexarc grant" in line]
    quoted = str(image).replace("'", "'\"'\"'").replace("\u001b", "")
    assert shown == [
        f"reflexarc grant desk boot.set_device=cdrom,once --inventory {inventory}",
        f"reflexarc grant desk snapshot.restore=a --inventory {inventory}",
        f"reflexarc grant desk media.eject --inventory {inventory}",
        f"reflexarc grant desk 'media.mount={quoted}' --inventory {inventory}",
    ]
