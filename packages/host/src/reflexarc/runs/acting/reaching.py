"""What needs something in the guest that answers: it may come late, since a guest boots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from reflexarc.errors import ConnectError
from reflexarc.machine.reach import RETRY
from reflexarc.playbook import waiting
from reflexarc.runs.acting.act import Act

T = TypeVar("T")


async def reached(act: Act, attempt: Callable[[], Awaitable[T]]) -> T:
    """What an attempt gives, made again every 2 s for the step's timeout while the guest isn't reached.

    Only ConnectError is tried again: nothing was sent then. An alarm phase ends the trying.
    """
    deadline = time.monotonic() + waiting.timeout(act.state)
    guard = act.machine.guard
    while True:
        sends = guard.sends
        try:
            return await attempt()
        except ConnectError:
            guard.sends = sends
            seen = act.watcher.latest
            alarmed = seen is not None and waiting.is_alarm(act.state, seen.phase)
            if alarmed or time.monotonic() + RETRY > deadline:
                raise
        await asyncio.sleep(RETRY)
