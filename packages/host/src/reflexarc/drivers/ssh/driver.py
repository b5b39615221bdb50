"""Lends what a machine offers over SSH."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from reflexarc.drivers.ssh.client import SshClient
from reflexarc.drivers.ssh.config import SshConfig
from reflexarc.drivers.ssh.desktop.screen import Desk, SshKeyboard, SshPointer, SshScreen
from reflexarc.drivers.ssh.files import SshFiles
from reflexarc.drivers.ssh.shell import SshShell
from reflexarc.machine.capabilities import Capabilities


@asynccontextmanager
async def open_driver(config: SshConfig, *, machine: str, state_dir: Path) -> AsyncIterator[Capabilities]:
    """Lend it without connecting: each use does, over one connection that outlives the last by a minute."""
    client = SshClient(config, machine=machine, folder=state_dir / "ssh")
    inside = Capabilities(shell=SshShell(client), files=SshFiles(client))
    if not config.pixels:
        yield inside
        return
    desk = Desk(client)
    screen = SshScreen(desk)
    yield replace(inside, screen=screen, keyboard=SshKeyboard(desk), pointer=SshPointer(desk, screen))
