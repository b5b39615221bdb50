"""The demo's machine: its image, its password and a small inventory of its own, kept in the user's cache."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reflexarc.demo.guest import build_iso
from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry

PLAYBOOKS = Path(__file__).parent / "playbooks"
NAME = "reflexarc-demo"

_INVENTORY = """\
# The machine of `reflexarc demo`; written anew by it.
[machines.reflexarc-demo]
drivers = ["qemu"]
[machines.reflexarc-demo.qemu]
cdrom = "demo.iso"
memory_mib = 512
machine_type = "q35"
"""


@dataclass(frozen=True)
class DemoMachine:
    """The demo's machine, ready to be opened; `password` is the file that holds root's."""

    entry: Entry
    inventory: Path
    password: Path


def prepare(progress: Callable[[str, float], None]) -> DemoMachine:
    """Build what is missing of the demo's machine; raises ConfigError where that can't be done."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "reflexarc" / "demo"
    )
    inventory = folder / entries.FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        password = _password(folder / "password")
        inventory.write_text(_INVENTORY)
    except OSError as error:
        raise ConfigError(f"can't write the demo's folder: {error.strerror}", path=folder) from error
    build_iso(folder / "demo.iso", progress, password=password.read_text())
    return DemoMachine(entries.load(inventory).entry(NAME), inventory, password)


def _password(path: Path) -> Path:
    """A password of this user's own, made once."""
    if not path.exists():
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(6))
    return path
