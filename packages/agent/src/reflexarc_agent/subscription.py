"""What a connection is told unasked: events, bounded, kept until its host takes them."""

from __future__ import annotations

import os
import threading
from typing import Dict, List, Tuple

from reflexarc_wire.values import AxEvent, Event

KEPT = 256
LOST = AxEvent("lost")
"""In place of more events than are kept: whatever was read may have changed."""


class Subscription:
    """The answer to `subscribe`: events put in by any thread, taken out by that of the connection.

    Those alike are one until they are taken; `fileno` is readable while there are some.
    """

    def __init__(self, events: Tuple[str, ...]) -> None:
        self.events = events
        self._lock = threading.Lock()
        self._pending: Dict[Event, None] = {}
        self._reader, self._writer = os.pipe()
        self._closed = False

    def fileno(self) -> int:
        return self._reader

    def put(self, event: Event) -> None:
        """Keep an event for the host; never waits."""
        with self._lock:
            if (
                self._closed
                or event in self._pending
                or (LOST in self._pending and isinstance(event, AxEvent))
            ):
                return
            if not self._pending:
                os.write(self._writer, b"\0")
            if len(self._pending) >= KEPT:
                self._pending = {event: None for event in self._pending if not isinstance(event, AxEvent)}
                event = LOST
            self._pending[event] = None

    def take(self) -> List[Event]:
        """The events since the last call, the oldest first."""
        with self._lock:
            taken = list(self._pending)
            if taken:
                self._pending.clear()
                os.read(self._reader, 1)
        return taken

    def close(self) -> None:
        """End it; what is put in afterwards is dropped."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)
