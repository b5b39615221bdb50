"""The program of the device's process: `python -m reflexarc.drivers.qemu.vsock FOLDER SOCKET`.

It inherits a lock on its pid file, a listening socket for QEMU and one for the host's programs, see `process`. It ends
once the QEMU of that folder has.
"""

from __future__ import annotations

import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reflexarc.drivers.qemu import pidfile
from reflexarc.drivers.qemu.vsock.device import MAX_CONNECTIONS
from reflexarc.drivers.qemu.vsock.process import FRONT_ENDS, PROGRAMS
from reflexarc.drivers.qemu.vsock.service import MAX_GREETINGS, Service

MAX_NOTES = 200
_SPARE_DESCRIPTORS = 64


def main() -> None:
    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    Service(
        socket.socket(fileno=FRONT_ENDS),
        socket.socket(fileno=PROGRAMS),
        path,
        is_wanted=lambda: pidfile.holder(folder / "qemu.pid") is not None,
        note=_notes(),
        limit=_limit(),
    ).run()


def _notes() -> Callable[[str], None]:
    """Say what a guest did wrong, so often and no more: it could fill the disk."""
    left = MAX_NOTES

    def note(text: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            last = " (no more will be said)" if not left else ""
            print(time.strftime("%Y-%m-%d %H:%M:%S"), text + last, file=sys.stderr, flush=True)

    return note


def _limit() -> int:
    """How many connections this process has descriptors for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + MAX_GREETINGS + _SPARE_DESCRIPTORS
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return max(1, allowed - MAX_GREETINGS - _SPARE_DESCRIPTORS)


if __name__ == "__main__":
    main()
