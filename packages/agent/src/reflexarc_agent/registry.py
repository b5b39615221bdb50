"""What this agent offers: backends by feature, and the answers that need none."""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, List, Optional, Sequence, Tuple

from reflexarc_agent import VERSION as AGENT_VERSION
from reflexarc_agent import system
from reflexarc_agent.backend import Backend, RefusalError
from reflexarc_agent.backend import Session as BackendSession
from reflexarc_agent.subscription import Subscription
from reflexarc_wire import VERSION
from reflexarc_wire.errors import NOT_AUTHORIZED, UNSUPPORTED
from reflexarc_wire.replies import DisplaysReply, HelloReply, PingReply, SubscribeReply
from reflexarc_wire.requests import FEATURES, Displays, Hello, Ping, Request
from reflexarc_wire.values import Display, Readiness

EXEC = "exec"


class Registry:
    """The features of this agent; those named in `without` are switched off for every host."""

    def __init__(self, backends: Sequence[Backend], without: Collection[str] = ()) -> None:
        self.without = frozenset(without)
        self._backends = [backend for backend in backends if backend.feature not in self.without]
        offered = {EXEC, *(backend.feature for backend in backends)} - self.without
        self.features: Tuple[str, ...] = tuple(feature for feature in FEATURES if feature in offered)
        self._boot_id = system.boot_id()

    def readiness(self) -> Dict[str, Readiness]:
        found = {backend.feature: backend.readiness() for backend in self._backends}
        return {EXEC: Readiness(True), **found} if EXEC in self.features else found

    def open(self) -> Session:
        return Session(self, [backend.open() for backend in self._backends])

    def require(self, feature: str) -> None:
        """Raise RefusalError where that feature is switched off or not offered."""
        if feature in self.without:
            raise RefusalError(
                NOT_AUTHORIZED, f"{feature} is switched off in this guest (the agent's --without {feature})"
            )
        if feature and feature not in self.features:
            raise RefusalError(UNSUPPORTED, f"this agent doesn't offer {feature}")

    def ping(self) -> PingReply:
        return PingReply(VERSION, (), self.readiness(), self.features, self._boot_id)

    def hello(self) -> HelloReply:
        readiness = self.readiness()
        return HelloReply(VERSION, self._boot_id, AGENT_VERSION, system.name(), self.features, readiness)


class Session:
    """One connection's operations; `subscription` is there once it has asked for events."""

    def __init__(self, registry: Registry, parts: List[BackendSession]) -> None:
        self._registry = registry
        self._parts = parts
        self.subscription: Optional[Subscription] = None
        self._handlers = {kind: answer for part in parts for kind, answer in part.handlers.items()}

    def perform(self, request: Request) -> object:
        """Carry a request out and return its reply; raises RefusalError, or OSError from the system."""
        self._registry.require(request.feature)
        if isinstance(request, Ping):
            return dataclasses.replace(self._registry.ping(), displays=self._displays())
        if isinstance(request, Hello):
            return self._registry.hello()
        handler = self._handlers.get(type(request))
        if handler is None:
            raise RefusalError(UNSUPPORTED, f"this agent doesn't offer {request.op}")
        answer = handler(request)
        return self._subscribed(answer) if isinstance(answer, Subscription) else answer

    def _subscribed(self, subscription: Subscription) -> SubscribeReply:
        """Let events come from this subscription, and no longer from the one before."""
        if self.subscription:
            self.subscription.close()
        self.subscription = subscription
        return SubscribeReply(subscription.events)

    def _displays(self) -> Tuple[Display, ...]:
        """The displays, none where no backend has any now."""
        try:
            answer = self._handlers[Displays](Displays())
        except (KeyError, RefusalError, OSError):
            return ()
        return answer.displays if isinstance(answer, DisplaysReply) else ()

    def close(self) -> None:
        if self.subscription:
            self.subscription.close()
        for part in self._parts:
            part.close()
