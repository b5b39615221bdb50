"""Where a bus listens; only sockets of this machine are ever opened.

Source: D-Bus specification, "Server Addresses", "Unix Domain Sockets".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Mapping
from urllib.parse import unquote

from reflexarc_agent.backends.linux.dbus.errors import BusConnectError

ADDRESS_BYTES = 4096


def socket_path(address: str) -> str:
    """The unix socket of an address, an abstract one led by a NUL; raises BusConnectError where it has none."""
    for entry in address[:ADDRESS_BYTES].split(";"):
        transport, _, rest = entry.partition(":")
        keys = dict(pair.partition("=")[::2] for pair in rest.split(","))
        if transport == "unix" and keys.get("path"):
            return unquote(keys["path"])
        if transport == "unix" and keys.get("abstract"):
            return "\0" + unquote(keys["abstract"])
    raise BusConnectError(f"no unix socket in the bus address {address[:200]!r}")


def session_bus(environ: Mapping[str, str]) -> str:
    """The address of the session bus of this process's user; raises BusConnectError where there is none."""
    address = environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if address:
        return address
    socket = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}") / "bus"
    if socket.exists():
        return f"unix:path={socket}"
    raise BusConnectError("there is no session bus: run the agent inside the desktop session of the user")
