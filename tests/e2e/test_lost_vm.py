"""A held run whose virtual machine is gone, or whose inventory is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Command, end_vms

pytestmark = pytest.mark.guest
INVENTORY = """\
[machines.vm]
drivers = ["qemu"]
[machines.vm.qemu]
memory_mib = 64
accel = "tcg"
"""
ASKS = """
name: asks
authorize: {destructive: true, ops: [power.off]}
steps:
  - {name: cut, wait_for: power_off, action: hard_off, destructive: true}
"""


@pytest.fixture
def lab(lab: Path) -> Path:
    (lab / "reflexarc.toml").write_text(INVENTORY)
    (lab / "asks.yaml").write_text(ASKS)
    return lab


@pytest.fixture
def held(lab: Path, command: Command) -> Iterator[str]:
    """A run that is held, on a VM that was launched for it."""
    run = str(json.loads(command("run", "asks.yaml", "-m", "vm").stdout)["run_id"])
    yield run
    (lab / "reflexarc.toml").write_text(INVENTORY)
    end_vms(lab)


def process(command: Command) -> int | None:
    (row,) = json.loads(command("machines", "list", "--json").stdout)
    pid = row["pid"]
    assert pid is None or isinstance(pid, int)
    return pid


def destructive(command: Command) -> list[str]:
    lines = [json.loads(line) for line in command("audit", "--json").stdout.splitlines()]
    return [line["operation"] for line in lines if line["allowed"] and line["operation"] == "power.off"]


def test_another_vm_is_told_of_before_anything_fires(command: Command, held: str) -> None:
    first = process(command)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    while process(command) is not None:
        pass
    reply = ("runs", "reply", held, "resume", "--grant", "power.off")
    done = command(*reply)
    asked = json.loads(done.stdout)
    second = process(command)
    assert (done.returncode, asked["escalation_id"], asked["reason"]) == (3, 2, "connection_lost")
    assert f"(process {first}) has ended, and this is another one (process {second})" in asked["detail"]
    assert "the reply was not given" in done.stderr
    assert destructive(command) == []
    assert command(*reply, "--escalation", "1").returncode == 1
    assert command(*reply).returncode == 0
    assert (destructive(command), process(command)) == (["power.off"], None)


def test_the_same_vm_is_no_news(command: Command, held: str) -> None:
    first = process(command)
    done = command("runs", "reply", held, "resume")
    assert (done.returncode, json.loads(done.stdout)["reason"]) == (3, "needs_authorization")
    assert process(command) == first


@pytest.mark.parametrize("words", [["abort"], ["reply"]])
def test_an_abort_ends_the_vm_of_a_run_whose_inventory_is_gone(
    command: Command, lab: Path, held: str, words: list[str]
) -> None:
    assert process(command) is not None
    (lab / "reflexarc.toml").unlink()
    assert "is gone; put it back" in command("runs", "reply", held, "resume").stderr
    done = command("runs", *words, held, *(["abort"] if words == ["reply"] else []))
    assert done.returncode == 0, done.stderr
    assert json.loads(command("runs", "show", held, "--json").stdout)["outcome"] == "aborted"
    (lab / "reflexarc.toml").write_text(INVENTORY)
    assert process(command) is None
    assert list((lab / "state").rglob("owner")) == []
