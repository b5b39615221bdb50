"""The join: one playbook from power-on, through GRUB and a booting Debian, to a named button on its desktop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import pytest
from tests.desk import Desk, desk
from tests.lent import ran

from reflexarc.errors import ConnectError, MachineError
from reflexarc.inventory.opening import open_session
from reflexarc.machine.capabilities import Command

pytestmark = [pytest.mark.full, pytest.mark.guest, pytest.mark.timeout(600)]
BOOT = 240.0
T = TypeVar("T")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return desk(tmp_path_factory.mktemp("desk"))


def joined(lab: Desk, transport: str) -> None:
    told = lab.join(transport)
    assert told["outcome"] == "succeeded"
    assert told["registered"]["built"]["stdout"] == "built release\n"  # type: ignore[index]
    assert told["telemetry"]["vision_calls"] == 0  # type: ignore[index]


def test_the_join(lab: Desk) -> None:
    joined(lab, "vsock")


@pytest.mark.parametrize("transport", ["virtio_serial", "tcp"])
def test_the_join_by_another_way(lab: Desk, transport: str) -> None:
    joined(lab, transport)


@pytest.mark.timeout(3600)
def test_the_join_ten_times(lab: Desk) -> None:
    for _ in range(10):
        joined(lab, "vsock")


def test_commands_go_over_ssh_where_the_agent_is_gone(lab: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same inside of the guest, as another account: the agent is lab's, the SSH server lets root in."""
    monkeypatch.setenv("REFLEXARC_STATE", str(lab.folder / "state"))
    entry = lab.entry("vsock")
    who = Command(argv=("id", "-un"))

    async def run() -> None:
        async with open_session(entry) as session:
            await session.power.on()
            await session.wait_for("grub_menu", timeout=60)
            await session.keyboard.press("enter")
            await answered(session.accessibility.apps)
            assert await ran(session.shell, who) == (b"lab\n", b"", 0)
            await ran(session.shell, Command(line="systemctl --user --no-block stop reflexarc-agent"))
            await gone(session.accessibility.apps)
            assert await answered(lambda: ran(session.shell, who)) == (b"root\n", b"", 0)

    asyncio.run(run())


async def gone(call: Callable[[], Awaitable[T]]) -> None:
    """Return once nobody answers a call any more."""
    async with asyncio.timeout(BOOT):
        with suppress(MachineError):
            while True:
                await call()


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """What a call gives once there is somebody to answer it."""
    async with asyncio.timeout(BOOT):
        while True:
            try:
                return await call()
            except ConnectError:
                await asyncio.sleep(0.5)
