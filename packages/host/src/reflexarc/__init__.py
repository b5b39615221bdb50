"""reflexarc: drives computers on their real state, from firmware to desktop.

    async with reflexarc.open("lab1") as m:
        await m.wait_for("grub_menu")
        await m.keyboard.press("enter")

Importing this loads the standard library only; the rest comes with the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from reflexarc.machine.accessibility import Selector
    from reflexarc.runs.replies import Reply
    from reflexarc.runs.session import Session

__version__ = "0.1.0"

__all__ = ["Reply", "Selector", "Session", "__version__", "open"]

_LAZY = {
    "Reply": "reflexarc.runs.replies",
    "Selector": "reflexarc.machine.accessibility",
    "Session": "reflexarc.runs.session",
}


def open(  # noqa: A001 - reflexarc.open is what a caller writes
    machine: str, *, grant: Sequence[str] = (), inventory: Path | None = None
) -> AbstractAsyncContextManager[Session]:
    """Open a machine of the inventory; use it as `async with reflexarc.open("lab1") as m`.

    grant: operation or class names, such as "power.reset", that you authorise for direct calls; without it
    they raise SafetyError. inventory: its file, where not the usual one.

    Raises ConfigError at once for an unknown machine or a mistake in the inventory; entering raises
    MachineError when the machine can't be reached.
    """
    from reflexarc.inventory import entries
    from reflexarc.inventory.opening import open_session

    entry = entries.load(inventory).entry(machine)
    return open_session(entry, grant=grant, holder="a program that opened it")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "sync":
        return import_module("reflexarc.sync")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'reflexarc' has no attribute {name!r}")
