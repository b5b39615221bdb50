"""The feature "accessibility": the tree, what is done to it, and what is told of it unasked."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, Tuple, TypeVar

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.acting import Delivery
from reflexarc_agent.backends.linux.atspi.errors import AtSpiError
from reflexarc_agent.backends.linux.atspi.refs import Refs
from reflexarc_agent.backends.linux.atspi.selecting import Selector
from reflexarc_agent.backends.linux.atspi.session import Session
from reflexarc_agent.backends.linux.desktop import BUS_GRANT, Desktop, Devices
from reflexarc_agent.backends.linux.errors import DisplayError
from reflexarc_agent.backends.linux.features.session import readiness
from reflexarc_agent.subscription import Subscription
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST
from reflexarc_wire.values import App, AxEvent, DisplayChanged, Node, Readiness, Rect

T = TypeVar("T")
FOUND, MOST, WAIT = 20, 1_000, 10.0
EVENTS = ("ax", "display_changed")
SOON = 0.5
"""Seconds that telling whether it is ready may take, for a host that asks for anything waits for that."""


class AccessibilityFeature:
    """The feature "accessibility"."""

    feature = "accessibility"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(lambda: self._desktop.accessibility(SOON), BUS_GRANT)

    def open(self) -> AccessibilitySession:
        return AccessibilitySession(self._desktop)


class AccessibilitySession:
    """One connection's references and operations on the tree."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop
        self._source: Optional[Accessibility] = None
        self._session: Optional[Session] = None
        self._refs = Refs()
        self._listening: Optional[Listening] = None

    @property
    def handlers(self) -> Handlers:
        return {
            requests.AxDump: self.dump,
            requests.AxElementAt: lambda r: _node_reply(self._run(lambda s: s.element_at(r.x, r.y))),
            requests.AxAction: lambda r: _done(self._run(lambda s: s.act(r.ref, r.action))),
            requests.AxSetValue: lambda r: _done(self._run(lambda s: s.set_value(r.ref, r.value))),
            requests.AxFocus: lambda r: _done(self._run(lambda s: s.focus(r.ref))),
            requests.AxFind: self.find,
            requests.AxWait: self.wait,
            requests.AxApps: self.apps,
            requests.Subscribe: self.subscribe,
            requests.AxActions: lambda r: replies.AxActionsReply(
                tuple(self._run(lambda s: s.actions(r.ref)))
            ),
        }

    def close(self) -> None:
        if self._listening:
            self._listening.stop()
        self._source = self._session = None

    def dump(self, request: requests.AxDump) -> replies.AxDumpReply:
        """A tree or an outline."""
        told = self._run(
            lambda session: session.dump(
                target=request.target,
                root=request.root,
                max_depth=64 if request.max_depth is None else request.max_depth,
                max_nodes=request.max_nodes or 20_000,
                deadline=min(request.deadline or 5.0, 60.0),
                outlined=request.format == "outline",
                interactive_only=bool(request.interactive_only),
                since=request.earlier,
            )
        )
        tree = told.get("tree")
        return replies.AxDumpReply(
            tree=to_node(tree) if tree else None,
            outline=told.get("outline"),
            complete=told["complete"],
            capped=told["capped"],
            count=told["count"],
            dump=told["dump"],
            earlier=told.get("since"),
            removed=tuple(told["removed"]) if "removed" in told else None,
        )

    def find(self, request: requests.AxFind) -> replies.AxFindReply:
        """What a selector means, in every application."""
        limit = max(1, min(request.limit or FOUND, MOST))
        told = self._run(lambda session: session.find(_selector(request), None, limit))
        return replies.AxFindReply(tuple(map(to_node, told["nodes"])), told["complete"], told["capped"])

    def wait(self, request: requests.AxWait) -> replies.NodeReply:
        """Wait in every application."""
        seconds = WAIT if request.timeout is None else request.timeout
        return _node_reply(self._run(lambda s: s.wait(_selector(request), bool(request.gone), seconds)))

    def apps(self, request: requests.AxApps) -> replies.AxAppsReply:
        """The applications that offer a tree."""
        return replies.AxAppsReply(tuple(App(**app) for app in self._run(lambda session: session.apps())))

    def subscribe(self, request: requests.Subscribe) -> Subscription:
        """Tell changes of the tree and of the displays from now on."""
        wanted = EVENTS if request.events is None else request.events
        unknown = [name for name in wanted if name not in EVENTS]
        if unknown:
            raise RefusalError(
                BAD_REQUEST, f"there are the events {', '.join(EVENTS)}, not {unknown[0][:40]!r}"
            )
        self._run(_present)
        if self._listening:
            self._listening.stop()
        self._listening = Listening(tuple(name for name in EVENTS if name in wanted))
        self._listen()
        return self._listening.subscription

    def _listen(self) -> None:
        if self._listening and self._source and self._session:
            display: Optional[Devices] = None
            with suppress(RefusalError):
                display = self._desktop.display()
            self._listening.start(self._source, self._session, display)

    def _run(self, operation: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        accessibility = self._desktop.accessibility()
        if self._session is None or self._source is not accessibility:
            # What the references named went with the bus: none may come to name something else.
            self._refs.end_all()
            self._source, self._session = accessibility, accessibility.session(self._refs)
            self._listen()
        try:
            return accessibility.run(operation(self._session))
        except (AtSpiError, DisplayError) as error:
            raise RefusalError(error.code, str(error)) from error


async def _present(session: Session) -> None:
    """Nothing but that the bus is there."""


class Listening:
    """What one connection is told of the accessibility bus and the display that are there now."""

    def __init__(self, events: Tuple[str, ...]) -> None:
        self.subscription = Subscription(events)
        self._stops: List[Callable[[], None]] = []

    def start(self, accessibility: Accessibility, session: Session, display: Optional[Devices]) -> None:
        """Listen to these, and no longer to those before."""
        self.stop()
        put = self.subscription.put
        if "ax" in self.subscription.events:
            self._stops.append(accessibility.listen(session, lambda kind, ref: put(AxEvent(kind, ref))))
        if "display_changed" in self.subscription.events and display is not None:
            with suppress(DisplayError):
                changes = display.changes()
                self._stops.append(accessibility.watch(changes, lambda: put(DisplayChanged())))

    def stop(self) -> None:
        """Listen no longer."""
        for stop in self._stops:
            stop()
        self._stops.clear()


def _selector(request: requests.AxFind) -> Selector:
    showing = True if request.showing is None else request.showing
    return Selector(request.role, request.name, request.value, request.text, showing)


def _done(delivery: Delivery) -> replies.Done:
    return replies.Done(delivery.delivery, delivery.retry_safe)


def _node_reply(told: Mapping[str, Any]) -> replies.NodeReply:
    return replies.NodeReply(to_node(told["node"]) if told["node"] else None)


def to_node(told: Mapping[str, Any]) -> Node:
    """A node of the wire, with those below it."""
    fields: Dict[str, Any] = dict(told)
    if "frame" in fields:
        fields["frame"] = Rect(**fields["frame"])
    for listed in ("actions", "path"):
        if listed in fields:
            fields[listed] = tuple(fields[listed])
    fields["children"] = tuple(map(to_node, fields.get("children", ())))
    return Node(**fields)
