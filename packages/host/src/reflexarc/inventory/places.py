"""Where reflexarc reads and writes, by the conventions of the user's system."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """Where reflexarc keeps what it writes, private to the user."""

    state: Path

    @property
    def journal(self) -> Path:
        return self.state / "runs.sqlite"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def audit(self) -> Path:
        return self.state / "audit.jsonl"

    @property
    def grants(self) -> Path:
        return self.state / "grants"

    @property
    def mcp_token(self) -> Path:
        return self.state / "mcp-token"

    def machine(self, place: str) -> Path:
        """The folder of a machine, by the `place` of its entry: its lock, its running VM."""
        return self.state / "machines" / place


def places() -> Places:
    """The places of this user: $REFLEXARC_STATE, else the XDG state folder."""
    own = os.environ.get("REFLEXARC_STATE")
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Places(Path(own or f"{base}/reflexarc").expanduser().absolute())


def phase_folders() -> list[Path]:
    """Folders of the user's own recognisers, where there are any."""
    folder = own_phases()
    return [folder] if folder.is_dir() else []


def own_phases() -> Path:
    """The folder of the user's own recognisers, also where there is none yet."""
    return config_folder() / "phases"


def config_folder() -> Path:
    """The user's configuration folder."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "reflexarc"


def kept(inventory: Path) -> tuple[Path, ...]:
    """What reflexarc keeps for itself: state, configuration, the inventory, and the owner's policy."""
    return places().state, config_folder(), inventory, Path("/etc/reflexarc")
