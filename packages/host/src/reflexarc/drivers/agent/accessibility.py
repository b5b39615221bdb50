"""The accessibility tree of the guest's desktop; implements `Accessibility`, and `Apps`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Literal

from reflexarc.drivers.agent.client import Agent, Control, done
from reflexarc.drivers.agent.conversation import Conversation
from reflexarc.drivers.agent.elements import Marks, app
from reflexarc.errors import CapabilityError, MachineError, OperationRejectedError, OperationTimeoutError
from reflexarc.machine.accessibility import App, Element, Found, Ref, Selector, Tree
from reflexarc.machine.reach import RETRY
from reflexarc_wire import requests
from reflexarc_wire.replies import AxAppsReply, AxDumpReply, AxFindReply, NodeReply, SubscribeReply

TREE = "observe.tree"
DEADLINE = 5.0
"""Seconds after which an agent tells what it has read of a tree."""

MARGIN = 10.0
"""Seconds beyond a wait's own that the agent has to answer."""

POLL = 0.25
"""Seconds between two looks, where no event tells."""

CHANGES_POLL = 1.0
LOOKED_THROUGH = 200


class AgentAccessibility:
    """The tree through the agent; references are told, and taken, in the one conversation for requests."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def apps(self) -> Sequence[App]:
        request = requests.AxApps()
        control = await self._agent.ask_control(request, TREE)
        reply = await control.conversation.ask(request, AxAppsReply, operation=TREE)
        return tuple(map(app, reply.apps))

    async def dump(
        self,
        app: int | None = None,
        *,
        root: Ref | None = None,
        form: Literal["tree", "outline"] = "tree",
        max_depth: int | None = None,
        max_nodes: int | None = None,
        interactive_only: bool = False,
    ) -> Tree:
        plain = requests.AxDump("frontmost" if app is None else app, max_depth)
        control = await self._agent.ask_control(plain, TREE)
        request = plain
        if control.known.version >= 3:
            request = requests.AxDump(
                plain.target,
                max_depth,
                max_nodes,
                DEADLINE,
                None if root is None else self._own(control, root, TREE),
                form,
                interactive_only,
            )
        elif root is not None or form != "tree" or interactive_only:
            raise self._too_old(control, "can only tell the whole tree of an application")
        reply = await control.conversation.ask(request, AxDumpReply, operation=TREE)
        # Beside the event loop: a tree of a hostile guest may have hundreds of thousands of nodes.
        return await asyncio.to_thread(Marks(control.mark).tree, reply)

    async def find(self, selector: Selector, *, limit: int = 20) -> Found:
        picky = selector.enabled is not None or selector.focused is not None
        request = _find(selector, max(limit, LOOKED_THROUGH) if picky else limit)
        control = await self._agent.ask_control(request, TREE)
        reply = await control.conversation.ask(request, AxFindReply, operation=TREE)
        found = Marks(control.mark).found(reply)
        if not found.elements and found.complete and not picky:
            # An agent may search the application in front alone; its wait looks through all.
            elsewhere = await self._first(selector)
            return Found((elsewhere,)) if elsewhere is not None else found
        # That part of a selector an agent isn't asked.
        meant = tuple(element for element in found.elements if selector.fits_state(element))
        if len(meant) > limit:
            return Found(meant[:limit], False, "limit")
        return Found(meant, found.complete, found.capped)

    async def wait(self, selector: Selector, *, gone: bool = False, timeout: float = 30.0) -> Element | None:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        if selector.enabled is not None or selector.focused is not None:
            return await self._polled(selector, gone, end)
        # On a connection of its own, as requests are answered in order: others would wait, too.
        async with self._agent.conversation(_wait(selector, gone, timeout), TREE) as (conversation, _):
            while True:
                left = max(0.0, end - loop.time())
                request = _wait(selector, gone, left)
                await conversation.ask(request, NodeReply, operation=TREE, timeout=left + MARGIN)
                if gone:
                    return None
                found = await self._first(selector)
                if found is not None:
                    return found
                if not left:
                    raise self._overdue(gone=False)

    async def at(self, x: float, y: float) -> Element | None:
        request = requests.AxElementAt(x, y)
        control = await self._agent.ask_control(request, TREE)
        reply = await control.conversation.ask(request, NodeReply, operation=TREE)
        return None if reply.node is None else Marks(control.mark).element(reply.node)

    async def act(self, ref: Ref, action: str) -> None:
        await self._act(requests.AxAction(ref, action), ref, "accessibility.action")

    async def set_value(self, ref: Ref, value: str | float | bool) -> None:
        await self._act(requests.AxSetValue(ref, value), ref, "accessibility.set_value")

    async def focus(self, ref: Ref) -> None:
        await self._act(requests.AxFocus(ref), ref, "accessibility.focus")

    async def changes(self) -> AsyncGenerator[None, None]:
        answered = False
        while True:
            try:
                async for _ in self._told():
                    answered = True
                    yield
            except MachineError:
                if answered:
                    answered = False
                    yield
            await asyncio.sleep(RETRY)

    async def _told(self) -> AsyncGenerator[None, None]:
        """Yield when the agent is there, and at each change from then on; raises MachineError when it is gone."""
        request = requests.Subscribe(("ax",))
        control = await self._agent.control(TREE)
        try:
            async with self._agent.conversation(request, TREE) as (conversation, _):
                await conversation.ask(request, SubscribeReply, operation=TREE)
                yield
                async for _ in _events(conversation):
                    yield
        except (CapabilityError, OperationRejectedError):
            while control.conversation.alive:
                yield
                await asyncio.sleep(CHANGES_POLL)
            raise

    async def _first(self, selector: Selector) -> Element | None:
        """The first element of any application, None where there is none now."""
        request = _wait(selector, False, 0.0)
        control = await self._agent.ask_control(request, TREE)
        try:
            reply = await control.conversation.ask(request, NodeReply, operation=TREE)
        except OperationTimeoutError:
            return None
        return None if reply.node is None else Marks(control.mark).element(reply.node)

    async def _polled(self, selector: Selector, gone: bool, end: float) -> Element | None:
        """Wait for what the agent can't be asked for in one: whether it is enabled, or has the focus."""
        loop = asyncio.get_running_loop()
        while True:
            found = (await self.find(selector, limit=1)).elements
            if gone is not bool(found):
                return found[0] if found else None
            if loop.time() >= end:
                raise self._overdue(gone=gone)
            await asyncio.sleep(min(POLL, max(0.0, end - loop.time())))

    async def _act(
        self,
        request: requests.AxAction | requests.AxSetValue | requests.AxFocus,
        ref: Ref,
        operation: str,
    ) -> None:
        control = await self._agent.ask_control(request, operation)
        await done(self._agent, replace(request, ref=self._own(control, ref, operation)), operation)

    def _own(self, control: Control, ref: Ref, operation: str) -> Ref:
        """What the agent calls an element; raises OperationRejectedError where it told that in no such conversation."""
        own = Marks(control.mark).own(ref)
        if own is None:
            raise OperationRejectedError(
                f"the element {str(ref)[:40]!r} was read over an earlier connection to its agent, or before its guest "
                "was started anew: read the tree again; nothing was sent",
                machine=self._agent.machine,
                operation=operation,
                code="stale_ref",
            )
        return own

    def _overdue(self, *, gone: bool) -> OperationTimeoutError:
        return OperationTimeoutError(
            f"the element was not {'gone' if gone else 'there'} in time; look at the tree",
            machine=self._agent.machine,
            operation=TREE,
        )

    def _too_old(self, control: Control, what: str) -> CapabilityError:
        return CapabilityError(
            f"its agent speaks version {control.known.version}, which {what}; put a newer one into the guest",
            machine=self._agent.machine,
            operation=TREE,
        )


class AgentApps:
    """Applications through the agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def launch(self, name: str) -> None:
        await done(self._agent, requests.LaunchApp(name), "apps.launch")


async def _events(conversation: Conversation) -> AsyncGenerator[None, None]:
    """Yield at each event, and once for those that came meanwhile."""
    news = asyncio.Event()

    async def listen() -> None:
        while True:
            await conversation.next(operation=TREE)
            news.set()

    listening = asyncio.create_task(listen())
    try:
        while not listening.done():
            waiting = asyncio.create_task(news.wait())
            await asyncio.wait((waiting, listening), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if news.is_set():
                news.clear()
                yield
        await listening
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _find(selector: Selector, limit: int) -> requests.AxFind:
    return requests.AxFind(
        selector.role, selector.name, selector.value, selector.text, selector.showing, limit
    )


def _wait(selector: Selector, gone: bool, timeout: float) -> requests.AxWait:
    return requests.AxWait(
        selector.role,
        selector.name,
        selector.value,
        selector.text,
        selector.showing,
        gone=gone,
        timeout=timeout,
    )
