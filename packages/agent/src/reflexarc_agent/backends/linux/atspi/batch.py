"""Many calls at once, under one deadline."""

from __future__ import annotations

import asyncio
from typing import Callable

from reflexarc_agent.backends.linux.dbus.bus import Bus, Call, Result, Ticket


class Batch:
    """Calls that are awaited together; what a reply leads to may be posted into the same batch."""

    def __init__(self) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open: dict[Ticket, Bus] = {}

    def post(self, bus: Bus, call: Call, tell: Callable[[Result], None]) -> None:
        """Send a call; `tell` gets its result unless the batch is given up before."""

        def landed(result: Result) -> None:
            del self._open[ticket]
            tell(result)
            if not self._open and not self._done.done():
                self._done.set_result(None)

        ticket = bus.post(call, landed)
        self._open[ticket] = bus

    async def finish(self, deadline: float) -> bool:
        """Wait until every call is answered; False when the deadline (of the loop's clock) passed before."""
        while self._open:
            if self._done.done():
                self._done = asyncio.get_running_loop().create_future()
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(asyncio.shield(self._done), max(0.0, left))
            except asyncio.TimeoutError:
                self.give_up()
                return False
        return True

    def give_up(self) -> None:
        """Forget what is still awaited."""
        for ticket, bus in self._open.items():
            bus.cancel(ticket)
        self._open.clear()
