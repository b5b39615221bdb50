"""Starting an application by its desktop entry, detached from the agent.

Source: Desktop Entry Specification 1.5, "D-Bus Activation".
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
from typing import Mapping, Optional

from reflexarc_agent.backends.linux.apps.entries import Entry, EntryError, entries, named
from reflexarc_agent.backends.linux.dbus.address import session_bus
from reflexarc_agent.backends.linux.dbus.bus import Bus, call_of
from reflexarc_agent.backends.linux.dbus.errors import BusConnectError, CallError, DBusError

ACTIVATION = 25.0
"""Seconds that an application is given to take its activation, as its bus does."""

EARLY = 0.2
"""Seconds within which one that fails has not started."""

TERMINALS = (
    ("xdg-terminal-exec",),
    ("x-terminal-emulator", "-e"),
    ("gnome-terminal", "--"),
    ("konsole", "-e"),
    ("xfce4-terminal", "-x"),
    ("foot",),
    ("xterm", "-e"),
)
"""Programs that show what runs in a terminal, each with what comes before the command."""

_BUS_NAME = re.compile(r"[A-Za-z_-][\w-]*(\.[A-Za-z_-][\w-]*)+", re.ASCII)


def launch(name: str, environ: Mapping[str, str]) -> bool:
    """Start an application by its entry's id or name; False where it can't be told whether it has started.

    Raises EntryError where there is none, OSError where the system can't start it.
    """
    entry = named(entries(environ), name)
    if entry.try_exec and not _program(entry.try_exec, environ):
        raise EntryError(f"{entry.name or entry.id} is not installed: {entry.try_exec} is missing")
    if entry.activatable and _BUS_NAME.fullmatch(entry.id) and len(entry.id) < 256:
        activated = asyncio.run(_activate(entry, environ))
        if activated is not None:
            return activated
    _start(entry, environ)
    return True


async def _activate(entry: Entry, environ: Mapping[str, str]) -> Optional[bool]:
    """Have the session's bus start it: whether it did, None where that was refused and nothing has happened."""
    path = "/" + entry.id.replace(".", "/").replace("-", "_")
    try:
        bus = await Bus.connect(session_bus(environ))
    except BusConnectError:
        return None
    try:
        await bus.call(
            call_of(entry.id, path, "org.freedesktop.Application.Activate", "a{sv}", {}), ACTIVATION
        )
    except CallError:
        return None
    except DBusError:
        return False
    finally:
        bus.close()
    return True


def _start(entry: Entry, environ: Mapping[str, str]) -> None:
    command = entry.command()
    if entry.terminal:
        command = [*_terminal(environ), *command]
    program = _program(command[0], environ)
    if not program:
        raise EntryError(f"{entry.name or entry.id} can't be started: there is no program {command[0][:200]}")
    process = subprocess.Popen(
        [program, *command[1:]],
        cwd=entry.folder if os.path.isdir(entry.folder) else environ.get("HOME") or "/",
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        status = process.wait(EARLY)
    except subprocess.TimeoutExpired:
        # Somebody has to wait for its end, or it stays a zombie.
        threading.Thread(target=process.wait, name="launched", daemon=True).start()
        return
    if status:
        raise EntryError(f"{entry.name or entry.id} has ended at once, with status {status}")


def _terminal(environ: Mapping[str, str]) -> tuple[str, ...]:
    for program, *before in TERMINALS:
        if _program(program, environ):
            return (program, *before)
    known = ", ".join(program for program, *_ in TERMINALS)
    raise EntryError(f"that runs in a terminal, and this desktop has none: install one of {known}")


def _program(name: str, environ: Mapping[str, str]) -> Optional[str]:
    return shutil.which(name, path=environ.get("PATH") or os.defpath)
