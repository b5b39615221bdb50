"""Telling whoever started the agent that it takes in hosts. Source: sd_notify(3)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY = b"READY=1"


def tell_ready() -> None:
    """Tell it where somebody wants to know; commands of hosts don't inherit whom."""
    path = os.environ.pop("NOTIFY_SOCKET", "")
    if path[:1] in ("/", "@"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(READY, path.replace("@", "\0", 1) if path[0] == "@" else path)
