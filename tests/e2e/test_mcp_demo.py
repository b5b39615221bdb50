"""The demo's guest in the hands of an agent: run, held by a panic, answered, granted by a person, finished."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client
from tests.mcp_lab import audited, over_stdio, values

from reflexarc.demo.guest import build_iso
from reflexarc.demo.machine import PLAYBOOKS
from reflexarc.inventory import entries
from reflexarc.inventory.opening import running_vm, stop_vm
from reflexarc.inventory.places import places
from reflexarc.playbook.grants import granted_keys
from reflexarc.runs.granting import GrantBook
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger

PASSWORD = "Demo-42"

pytestmark = [pytest.mark.full, pytest.mark.guest, pytest.mark.timeout(400)]


def playbook(name: str) -> dict[str, Any]:
    """The demo's playbook, with a password that an agent may give: it is no secret there."""
    found: dict[str, Any] = yaml.safe_load((PLAYBOOKS / f"{name}.yaml").read_text())
    return {**found, "vars": {"password": {"default": PASSWORD}}}


def grant_reset(run_id: str) -> None:
    """What `reflexarc grant RUN power.reset` keeps."""
    with closing(Journal(places().journal)) as journal:
        state = Ledger.open(journal, run_id).state
    GrantBook(places().grants).give(
        machine=state.machine, place=state.place, operations=("power.reset",), seconds=300, by="a person", run=run_id,
        keys=granted_keys(state.playbook.steps, ["power.reset"], state.key_of, most=1),
    )  # fmt: skip


async def ended(client: Client, run_id: str) -> dict[str, Any]:
    told = await values(client, "run_wait", run_id=run_id, timeout=300)
    assert told["outcome"] != "running"
    return told


def test_a_panic_is_answered_by_an_agent_with_what_a_person_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    build_iso(tmp_path / "demo.iso", lambda doing, share: None, password=PASSWORD)
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(
        '[machines.demo]\ndrivers = ["qemu"]\nallow = {people = ["*"], agents = ["observe", "input", "power"]}\n'
        'qemu = {cdrom = "demo.iso", memory_mib = 512, machine_type = "q35", accel = "tcg"}\n'
    )

    async def begin() -> dict[str, Any]:
        async with over_stdio(inventory) as client:
            ran = await values(client, "run_playbook", machine="demo", playbook=playbook("surprise"), wait=0)
            return await ended(client, ran["run_id"])

    async def answer(asked: dict[str, Any]) -> dict[str, Any]:
        """By another server: the first one is gone, and the machine has stayed."""
        run_id = asked["run_id"]
        async with over_stdio(inventory) as client:
            assert (await values(client, "observe", machine="demo"))["phase"] == "crash_screen"
            await values(client, "reply_escalation", run_id=run_id, escalation_id=1, reply="amend", resume_at=0, wait=0,
                         playbook=playbook("recover"))  # fmt: skip
            needs = (await ended(client, run_id))["escalation"]
            assert needs["reason"] == "needs_authorization"
            assert [line for line in audited("power.reset") if line["allowed"]] == []
            grant_reset(run_id)
            await values(client, "reply_escalation", run_id=run_id, escalation_id=2, reply="resume", wait=0)
            return await ended(client, run_id)

    entry = entries.load(inventory).entry("demo")
    try:
        held = asyncio.run(begin())
        asked = held["escalation"]
        assert (asked["reason"], asked["observed_phase"]) == ("off_script", "crash_screen")
        assert "Kernel panic" in asked["text"]
        assert running_vm(entry) is not None
        finished = asyncio.run(answer(asked))
        assert (finished["outcome"], finished["step_name"]) == ("succeeded", "See the shell")
        assert len([line for line in audited("power.reset") if line["allowed"]]) == 1
        assert running_vm(entry) is None
    finally:
        stop_vm(entry)
