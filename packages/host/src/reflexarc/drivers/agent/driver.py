"""Lends what the agent inside a guest offers; nothing is connected before something is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from reflexarc.drivers.agent.accessibility import AgentAccessibility, AgentApps
from reflexarc.drivers.agent.client import Agent
from reflexarc.drivers.agent.config import AgentConfig
from reflexarc.drivers.agent.files import AgentFiles
from reflexarc.drivers.agent.input import AgentKeyboard, AgentPointer
from reflexarc.drivers.agent.screen import AgentScreen
from reflexarc.drivers.agent.shell import AgentShell
from reflexarc.drivers.agent.transports import OwnVsock, transport_of
from reflexarc.machine.capabilities import Capabilities


class AgentCapabilities(Capabilities):
    """What an agent offers, and the agent: whether it answers, and what it says of itself."""

    agent: Agent

    def __init__(self, agent: Agent, *, pixels: bool) -> None:
        screen = AgentScreen(agent)
        super().__init__(
            screen=screen if pixels else None,
            keyboard=AgentKeyboard(agent) if pixels else None,
            pointer=AgentPointer(agent, screen) if pixels else None,
            shell=AgentShell(agent),
            files=AgentFiles(agent),
            apps=AgentApps(agent),
            accessibility=AgentAccessibility(agent),
        )
        object.__setattr__(self, "agent", agent)


@asynccontextmanager
async def open_driver(
    config: AgentConfig, *, machine: str, state_dir: Path, own_vsock: OwnVsock = lambda: None
) -> AsyncIterator[AgentCapabilities]:
    """Lend what the agent offers, whether it answers yet or not; each call says so where it doesn't.

    config: of an agent that is enabled. own_vsock: asked, at each connection, where the machine's own vsock is.
    Raises ConfigError where its token or certificate can't be had.
    """
    transport = transport_of(config, machine=machine, state_dir=state_dir, own_vsock=own_vsock)
    agent = Agent(transport, config.secret(machine), machine)
    try:
        yield AgentCapabilities(agent, pixels=config.pixels)
    finally:
        await agent.close()
