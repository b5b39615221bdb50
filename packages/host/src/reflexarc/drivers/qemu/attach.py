"""A QEMU that somebody else started, known by its QMP socket alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.errors import ConfigError, ConnectError, ConnectionLostError

# A QMP socket serves one program at a time and lets the others wait without a word.
GREETING_TIMEOUT = 1.5


@dataclass(frozen=True)
class Attached:
    """Implements `client.Peer`. `serial` is the socket of its console, None where it has none."""

    machine: str
    folder: Path
    socket: Path
    serial: Path | None = None

    @property
    def monitors(self) -> tuple[Path, ...]:
        return (self.socket,)

    @property
    def greeting_timeout(self) -> float:
        return GREETING_TIMEOUT

    def lost(self, operation: str = "") -> ConnectionLostError:
        """The error for a connection to this QEMU that broke."""
        return ConnectionLostError(
            f"QEMU closed the connection {self.socket}, or has ended; look at the machine before repeating "
            "anything",
            machine=self.machine,
            operation=operation,
        )

    def unreachable(self, why: str) -> ConnectError:
        """The error for this QEMU when it didn't let anybody in."""
        if not self.socket.exists():
            advice = "start that machine, or correct the path"
        elif why.startswith("no greeting"):
            advice = "another program is connected to it; end that one, or give QEMU a -qmp socket more"
        else:
            advice = "is it a QMP socket, and has its QEMU not ended?"
        return ConnectError(f"{self.socket} can't be attached to ({why}); {advice}", machine=self.machine)


def attach(config: QemuConfig, *, machine: str, state_dir: Path) -> Attached:
    """The running machine that the configuration names; nothing is sent to it yet."""
    if config.attach is None:
        raise ConfigError(f"machine {machine!r}, qemu.attach: must be the path of a QMP socket")
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Attached(machine, state_dir.absolute(), config.attach, config.serial)
