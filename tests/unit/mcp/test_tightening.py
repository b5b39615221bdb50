"""What an operator takes away is refused at once: to the runs that advance, and in machines that are open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_lab import audited, inside, values, write_lab

KEYS = 40
PRESSES: dict[str, Any] = {
    "name": "presses",
    "steps": [
        step
        for number in range(KEYS)
        for step in (
            {"name": f"key {number}", "action": "press_key", "args": {"key": "a"}},
            {"name": f"pause {number}", "action": "wait", "args": {"seconds": 0.1}},
        )
    ],
}


def taken_away(inventory: Path) -> None:
    inventory.write_text(inventory.read_text().replace('"input"', '"observe.tree"'))


def removed(inventory: Path) -> None:
    inventory.write_text(inventory.read_text().replace("[machines.desk]", "[machines.other]"))


def broken(inventory: Path) -> None:
    inventory.write_text("[machines")


def within_the_users_own(inventory: Path) -> None:
    (inventory.parent / "policy.toml").write_text(
        '[machines."*"]\nallow = {people = ["*"], agents = ["observe"]}\n'
    )


@pytest.mark.parametrize("change", [taken_away, removed, broken, within_the_users_own])
def test_a_run_that_advances_sends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    inventory = write_lab(tmp_path, "observe", "input", "power.on")
    policy = tmp_path / "policy.toml"
    policy.write_text('[machines."*"]\nallow = {people = ["*"], agents = ["*"]}\n')
    policy.chmod(0o600)
    monkeypatch.setenv("REFLEXARC_POLICY", str(policy))

    async def ask() -> None:
        async with inside(inventory) as client:
            ran = await values(client, "run_playbook", machine="desk", playbook=PRESSES, wait=0.5)
            assert ran["outcome"] == "running"
            before = inventory.read_text()
            change(inventory)
            async with asyncio.timeout(30):
                while not [line for line in audited("keyboard.press") if not line["allowed"]]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            inventory.write_text(before)
            policy.write_text('[machines."*"]\nallow = {people = ["*"], agents = ["*"]}\n')
            held = await values(client, "run_wait", run_id=ran["run_id"], timeout=20)
            assert held["outcome"] == "held"
            assert held["escalation"]["reason"] == "action_failed"

    asyncio.run(ask())
    allowed = [line["allowed"] for line in audited("keyboard.press")]
    assert allowed == [True] * (len(allowed) - 1) + [False]
    assert 1 < len(allowed) < KEYS
    assert audited("keyboard.press")[-1]["why"] == "allow.agents"
