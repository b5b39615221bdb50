"""Whether an agent answers inside of a machine, asked without its other drivers: a list of tools waits for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path

from reflexarc.drivers.agent.client import Agent
from reflexarc.drivers.agent.config import AgentConfig
from reflexarc.drivers.agent.transports import transport_of
from reflexarc.errors import ConfigError, MachineError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.places import places


async def has_desktop(entry: Entry, patience: float) -> bool:
    """Tell whether an agent answers now, within so many seconds, that offers the tree of a desktop or applications."""
    if "agent" not in entry.drivers:
        return False
    with suppress(MachineError, ConfigError, TimeoutError):
        config = agent_config(entry)
        if not config.enabled:
            return False
        transport = transport_of(
            config,
            machine=entry.name,
            state_dir=places().machine(entry.place),
            own_vsock=partial(own_vsock, entry),
        )
        agent = Agent(transport, config.secret(entry.name), entry.name)
        try:
            async with asyncio.timeout(patience):
                known = await agent.look()
            return not {"accessibility", "apps"}.isdisjoint(known.features)
        finally:
            await agent.close()
    return False


def agent_config(entry: Entry) -> AgentConfig:
    has_vsock = "qemu" in entry.drivers and entry.settings["qemu"].get("vsock") is True
    return AgentConfig.parse(
        entry.settings["agent"], machine=entry.name, folder=entry.source.parent, own_vsock=has_vsock
    )


def own_vsock(entry: Entry) -> Path | int | None:
    """Where the machine's own vsock is while it runs, None where it has none."""
    if "qemu" not in entry.drivers:
        return None
    from reflexarc.drivers.qemu import launch as qemu_vm

    vm = qemu_vm.find(entry.name, places().machine(entry.place))
    return None if vm is None else vm.vsock
