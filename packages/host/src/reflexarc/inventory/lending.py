"""The drivers of a machine, open; the only module that opens them, save for `answering`, which asks agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from reflexarc.drivers.agent.driver import open_driver as open_agent
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver as open_qemu
from reflexarc.drivers.replay.config import ReplayConfig
from reflexarc.drivers.replay.driver import open_driver as open_replay
from reflexarc.drivers.ssh.config import SshConfig
from reflexarc.drivers.ssh.driver import open_driver as open_ssh
from reflexarc.errors import MachineError
from reflexarc.inventory.answering import agent_config, own_vsock
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.places import places
from reflexarc.machine.reach import Lent, Reach
from reflexarc.sensing.watcher import Watcher

STARTING = frozenset(
    (
        *("power_off", "post_screen", "bios_menu", "boot_device_menu", "pxe_boot", "grub_menu", "booting"),
        *("login_prompt", "graphical_login", "desktop"),
    )
)
"""Phases in which an agent goes or comes: one that didn't answer before is looked for anew."""


@asynccontextmanager
async def open_lent(entry: Entry) -> AsyncIterator[Sequence[Lent]]:
    """Open the drivers of a machine, in their order."""
    async with AsyncExitStack() as stack:
        lent = [await _opened(entry, driver, stack) for driver in entry.drivers]
        yield [one for one in lent if one is not None]


async def _opened(entry: Entry, driver: str, stack: AsyncExitStack) -> Lent | None:
    """What a driver lends, None where it is switched off."""
    state_dir = places().machine(entry.place)
    match driver:
        case "qemu":
            qemu = open_qemu(qemu_config(entry), machine=entry.name, state_dir=state_dir)
            return Lent(driver, await stack.enter_async_context(qemu))
        case "agent":
            config = agent_config(entry)
            if not config.enabled:
                return None
            agent = await stack.enter_async_context(
                open_agent(
                    config, machine=entry.name, state_dir=state_dir, own_vsock=partial(own_vsock, entry)
                )
            )
            return Lent(driver, agent, agent.agent, pixels_last=1)
        case "ssh":
            ssh = open_ssh(ssh_config(entry), machine=entry.name, state_dir=state_dir)
            return Lent(driver, await stack.enter_async_context(ssh), pixels_last=2)
        case _:
            replay = open_replay(replay_config(entry), machine=entry.name, state_dir=state_dir)
            return Lent(driver, await stack.enter_async_context(replay))


def qemu_config(entry: Entry) -> QemuConfig:
    return QemuConfig.parse(entry.settings["qemu"], machine=entry.name, folder=entry.source.parent)


def replay_config(entry: Entry) -> ReplayConfig:
    return ReplayConfig.parse(entry.settings["replay"], machine=entry.name, folder=entry.source.parent)


def switched_off(entry: Entry) -> str:
    """What to add to an error where the machine's agent is named and not used, empty otherwise."""
    if "agent" not in entry.drivers or agent_config(entry).enabled:
        return ""
    return f"; its agent is switched off: set `enabled = true` in [machines.{entry.name}.agent]"


def ssh_config(entry: Entry) -> SshConfig:
    return SshConfig.parse(entry.settings["ssh"], machine=entry.name, folder=entry.source.parent)


async def refresh_while_starting(watcher: Watcher, reaches: Sequence[Reach]) -> None:
    """Have the ways into the guest looked at anew whenever it is seen to start; runs until it is cancelled."""
    seen, phase = None, ""
    with suppress(MachineError):
        while True:
            seen = await watcher.next(seen, None) or seen
            if seen is not None and seen.phase != phase:
                phase = seen.phase
                if phase in STARTING:
                    for reach in reaches:
                        reach.refresh()


@asynccontextmanager
async def refreshing(watcher: Watcher, lent: Sequence[Lent]) -> AsyncIterator[None]:
    """Have that done while the context is open."""
    reaches = [one.reach for one in lent if one.reach is not None]
    following = asyncio.create_task(refresh_while_starting(watcher, reaches)) if reaches else None
    try:
        yield
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
