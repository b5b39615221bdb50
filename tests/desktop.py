"""A desktop session for tests, and what reads and drives it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from guests.desktop.session import DesktopSession

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.selecting import Selector
from reflexarc_agent.backends.linux.atspi.session import Session
from reflexarc_agent.backends.linux.x11.devices import X11

T = TypeVar("T")


class Driven:
    """One application, its session and shorthands to look at it."""

    def __init__(self, accessibility: Accessibility, pid: int) -> None:
        self.accessibility = accessibility
        self.session: Session = accessibility.session()
        self.pid = pid

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        return self.accessibility.run(operation)

    def find(self, **wanted: Any) -> list[dict[str, Any]]:
        found = self.run(self.session.find(Selector(**wanted), self.pid))
        nodes: list[dict[str, Any]] = found["nodes"]
        return nodes

    def ref(self, **wanted: Any) -> str:
        (node,) = self.find(**wanted)
        return str(node["ref"])

    def wait(self, gone: bool = False, timeout: float = 20.0, **wanted: Any) -> dict[str, Any]:
        told = self.run(self.session.wait(Selector(**wanted), gone=gone, timeout=timeout, target=self.pid))
        return told["node"] or {}

    def outline(self, **options: Any) -> list[str]:
        text: str = self.run(self.session.dump(self.pid, outlined=True, **options))["outline"]
        return [line.strip() for line in text.splitlines()]


@pytest.fixture(scope="session")
def desktop() -> Iterator[DesktopSession]:
    with DesktopSession() as session:
        yield session


@pytest.fixture(scope="session")
def x11(desktop: DesktopSession) -> Iterator[X11]:
    with X11(desktop.environ["DISPLAY"]) as display:
        yield display


@pytest.fixture(scope="session")
def accessibility(desktop: DesktopSession, x11: X11) -> Iterator[Accessibility]:
    with Accessibility(desktop.environ, x11) as accessibility:
        yield accessibility


def started(
    desktop: DesktopSession, accessibility: Accessibility, app: str, *arguments: str
) -> Iterator[Driven]:
    """Start an application and wait until its button "Build" shows; it is ended afterwards."""
    process = desktop.app(app, *arguments)
    driven = Driven(accessibility, process.pid)
    try:
        driven.wait(role="button", name="Build")
        yield driven
    finally:
        desktop.end(process)


@pytest.fixture(scope="module")
def gtk3(desktop: DesktopSession, accessibility: Accessibility) -> Iterator[Driven]:
    yield from started(desktop, accessibility, "gtk3")


@pytest.fixture
def own_gtk3(desktop: DesktopSession, accessibility: Accessibility) -> Iterator[Driven]:
    """One for a test that leaves it changed."""
    yield from started(desktop, accessibility, "gtk3")


__all__ = ["Driven", "accessibility", "desktop", "gtk3", "own_gtk3", "started", "x11"]
