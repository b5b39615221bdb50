"""How the agent's end reaches threads that wait for something else."""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import contextmanager
from typing import Dict, Iterator, Mapping, Optional

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


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


@contextmanager
def asked_to_end() -> Iterator[int]:
    """Take the signals that end a program; the descriptor has something to read once one came.

    Python tells its main thread of a signal only when that next runs: one that another thread took ends no wait.
    """
    asked, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told)
    for number in ENDING:
        signal.signal(number, lambda *_: None)
    try:
        yield asked
    finally:
        signal.set_wakeup_fd(before)
        os.close(told)
        os.close(asked)


def notice(text: str) -> None:
    """Tell whoever runs the agent."""
    print(f"reflexarc-agent: {text}", file=sys.stderr, flush=True)
