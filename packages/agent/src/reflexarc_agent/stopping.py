"""How the agent's end reaches threads that wait for something else."""

from __future__ import annotations

import os
import select
import sys
from typing import Dict, Mapping, Optional


class Stop:
    """Set once, for good."""

    def __init__(self) -> None:
        # Its end is told to everyone who polls it.
        self._fd, self._told = os.pipe()

    def set(self) -> None:
        os.close(self._told)

    def close(self) -> None:
        os.close(self._fd)

    def wait(
        self, events: Optional[Mapping[int, int]] = None, timeout: Optional[float] = None
    ) -> Optional[Dict[int, int]]:
        """Poll descriptors for their events, and return what happened, nothing if the time was over; None once set."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        for fd, mask in (events or {}).items():
            poll.register(fd, mask)
        found = dict(poll.poll(None if timeout is None else timeout * 1000))
        return None if self._fd in found else found


def notice(text: str) -> None:
    """Tell whoever runs the agent."""
    print(f"reflexarc-agent: {text}", file=sys.stderr, flush=True)
