"""The one contract between the agent and what offers its operations."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Protocol, Type

from reflexarc_wire.requests import Request
from reflexarc_wire.values import Readiness

Handlers = Mapping[Type[Request], Callable[[Any], object]]


class RefusalError(Exception):
    """An operation can't be carried out; `code` is one of the wire's."""

    def __init__(self, code: str, message: str, detail: Optional[str] = None) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


class Session(Protocol):
    """A backend's work for one connection, called by that connection's thread only."""

    @property
    def handlers(self) -> Handlers:
        """For each request it serves the function that answers it with a reply; that raises RefusalError or OSError.

        `subscribe` is answered with a `Subscription`, into which events go.
        """

    def close(self) -> None:
        """Undo what only made sense while the connection was there."""


class Backend(Protocol):
    """Offers one feature."""

    feature: str

    def readiness(self) -> Readiness:
        """Tell whether it can be used now, without side effects that a user would notice."""

    def open(self) -> Session: ...
