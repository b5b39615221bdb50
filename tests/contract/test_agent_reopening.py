"""The agent outlives the desktop's servers: what it had open is closed and opened again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guests.desktop.session import LAUNCHER, DesktopSession
from tests.agents import Agent, Host, running

from reflexarc_wire.replies import AxAppsReply, Done, NodeReply, ScreenshotReply
from reflexarc_wire.requests import AxAction, AxApps, AxWait, KeyDown, Screenshot
from reflexarc_wire.values import Node

BUILD = AxWait(role="AXButton", name="Build", timeout=20.0)


@pytest.fixture(scope="module")
def own_desktop() -> Iterator[DesktopSession]:
    with DesktopSession(640, 480) as session:
        yield session


@pytest.fixture
def agent(own_desktop: DesktopSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    path = tmp_path_factory.mktemp("agent") / "agent.sock"
    with running(path, extra=own_desktop.environ) as agent:
        yield agent


def button(host: Host) -> Node:
    """The sample's button, once it shows."""
    shown = host.ask(BUILD)
    assert isinstance(shown, NodeReply), shown
    assert shown.node is not None
    return shown.node


def test_a_bus_that_ended_is_opened_again(own_desktop: DesktopSession, agent: Agent) -> None:
    app = own_desktop.app("gtk3")
    with agent.host() as host:
        before = button(host)
        own_desktop.end(app)
        own_desktop.end(own_desktop.program("at-spi-bus-launcher"))
        own_desktop.start([LAUNCHER, "--launch-immediately"])
        assert agent.until(lambda: isinstance(host.ask(AxApps()), AxAppsReply))
        app = own_desktop.app("gtk3")
        # What an old reference names is gone, and its number isn't given to anything else.
        after = button(host)
        assert host.refused(AxAction(before.ref, "AXPress")).code == "stale_ref"
        assert after.ref != before.ref
        assert host.ask(AxAction(after.ref, "AXPress")) == Done("delivered", False)
    own_desktop.end(app)


def test_a_display_that_ended_is_opened_again(own_desktop: DesktopSession, agent: Agent) -> None:
    number = own_desktop.environ["DISPLAY"]
    with agent.host() as holding, agent.host() as host:
        assert holding.ask(KeyDown("shift")) == Done("delivered", False)
        assert isinstance(host.ask(AxApps()), AxAppsReply)
        own_desktop.end(own_desktop.program("Xvfb"))
        assert host.refused(Screenshot(format="png")).code == "os_error"
        own_desktop.start(["Xvfb", number, "-screen", "0", "800x600x24", "-nolisten", "tcp"])
        assert agent.until(lambda: isinstance(host.ask(Screenshot(format="png")), ScreenshotReply))
        taken = host.ask(Screenshot(format="png"))
        assert isinstance(taken, ScreenshotReply)
        assert (taken.width, taken.height) == (800, 600)
        app = own_desktop.app("gtk4")
        # GTK 4 counts from its window: the display that is there now is asked where that is.
        assert button(host).title == "Build"
        own_desktop.end(app)
