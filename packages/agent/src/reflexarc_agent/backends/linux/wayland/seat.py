"""The seat that keys and the pointer belong to.

Source: wayland.xml, "wl_seat".
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from reflexarc_agent.backends.linux.wayland.connection import Connection

POINTER, KEYBOARD = 1, 2
SETTLE = 0.5
"""Seconds in which clients begin to listen to a keyboard, or a pointer, where there was none before."""


class Seat:
    """The first seat of a compositor."""

    def __init__(self, connection: Connection, sleep: Callable[[float], object] = time.sleep) -> None:
        self._connection = connection
        self._sleep = sleep
        self._object: Optional[int] = None
        self._capabilities = 0

    def require(self, what: str) -> None:
        """Raise NotOfferedError where there is no seat."""
        self.object(what)

    def object(self, what: str) -> int:
        """The seat; raises NotOfferedError where there is none."""
        with self._connection.lock:
            if self._object is None:
                self._object = self._connection.only("wl_seat", 1, what, self._told)
                self._connection.roundtrip("asking for the seat")
            return self._object

    @contextmanager
    def gaining(self, capability: int) -> Iterator[None]:
        """Around making a device: waits afterwards until clients know of it, where it is the first of its kind."""
        had = self._capabilities & capability
        yield
        if not had:
            self._sleep(SETTLE)

    def _told(self, event: str, value: int) -> None:
        if event == "capabilities":
            self._capabilities = value


def milliseconds() -> int:
    """The time of an input event."""
    return time.monotonic_ns() // 1_000_000 & 0xFFFFFFFF
