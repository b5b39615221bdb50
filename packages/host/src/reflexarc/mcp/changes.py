"""Telling clients that the list of tools is another one: an agent answers inside of a machine by now, or no longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from reflexarc.errors import ReflexarcError

AT_ONCE = 0.5
"""Seconds that a list of tools waits for agents to say that they are there; who is later is told of afterwards."""
EVERY = 5.0
TELLING = 5.0
IDLE = 600.0
MAX_SESSIONS = 200


class Ask(Protocol):
    """Tells whether there are elements to act on."""

    def __call__(self, *, by_clock: bool) -> Awaitable[bool]: ...


class Changes(InMemorySubscriptionBus):
    """Asks time and again whether there are elements to act on, while a client wants to be told.

    Those of the newer era subscribe; those that shook hands are told from when they list the tools.
    """

    def __init__(self, ask: Ask, every: float = EVERY) -> None:
        super().__init__()
        self._ask = ask
        self._every = every
        self._known = False
        self._subscribed = 0
        self._sessions: dict[int, tuple[ServerSession, float]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def offers_elements(self) -> bool:
        """Tell what is known at once."""
        asked = self._asked(by_clock=False)
        await asyncio.sleep(0)  # in which it loads what it needs, the first time: that is no agent's time
        await asyncio.wait([asked], timeout=AT_ONCE)
        return self._known

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(listener)
        open_ones = [listener]
        self._subscribed += 1
        self._watch()

        def end() -> None:
            unsubscribe()
            self._subscribed -= len(open_ones)
            open_ones.clear()

        return end

    def heard_from(self, context: ServerRequestContext[Any, Any]) -> None:
        """Note that a client that shook hands is there, and wants to be told once it lists the tools."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        key = id(context.session.client_params)
        if context.method == "tools/list" or key in self._sessions:
            self._sessions.pop(key, None)
            # Over a pipe there is one client, for as long as the server.
            until = float("inf") if context.request is None else time.monotonic() + IDLE
            self._sessions[key] = (context.session, until)
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._watch()

    async def close(self) -> None:
        """Ask no longer."""
        tasks = [task for task in (self._asking, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _asked(self, *, by_clock: bool) -> asyncio.Task[None]:
        """What asks now, for whoever wants to know."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._look(by_clock), context=Context())
        return self._asking

    async def _look(self, by_clock: bool) -> None:
        some = False
        with suppress(ReflexarcError):
            some = await self._ask(by_clock=by_clock)
        if some != self._known:
            self._known = some
            await self.publish(ToolsListChanged())
            await asyncio.gather(*(_told(session) for session, _ in self._sessions.values()))

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._keep_asking(), context=Context())

    async def _keep_asking(self) -> None:
        while self._has_listeners():
            await asyncio.sleep(self._every)
            await self._asked(by_clock=True)

    def _has_listeners(self) -> bool:
        now = time.monotonic()
        self._sessions = {key: one for key, one in self._sessions.items() if one[1] > now}
        return bool(self._subscribed or self._sessions)


async def _told(session: ServerSession) -> None:
    """Tell one client; one that doesn't read keeps nobody waiting for long."""
    with suppress(Exception):
        async with asyncio.timeout(TELLING):
            await session.send_tool_list_changed()
