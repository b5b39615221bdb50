"""Waits for descriptors, one thread for all of them."""

from __future__ import annotations

import select
from collections.abc import Callable

READABLE, WRITABLE = select.POLLIN, select.POLLOUT
HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Loop:
    """Calls back for what descriptors have become, with the bits of poll; one that hung up always tells."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._calls: dict[int, Callable[[int], None]] = {}

    def watch(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
        """Begin to watch a descriptor, or for other events than before."""
        self._poll.register(descriptor, events)
        self._calls[descriptor] = call

    def forget(self, descriptor: int) -> None:
        """Watch a descriptor no more; to be called before it is closed. One that isn't watched is fine."""
        if self._calls.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def turn(self, timeout: float | None) -> None:
        """Wait until something has happened, and call back for all that has."""
        for descriptor, events in self._poll.poll(None if timeout is None else timeout * 1000):
            call = self._calls.get(descriptor)
            if call is not None:
                call(events)
