"""An X server that hangs holds up nobody who doesn't need it, and is used again once it goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from guests.desktop.session import DesktopSession
from tests.agents import Agent, Host, running

from reflexarc_wire.replies import Done, PingReply, ScreenshotReply
from reflexarc_wire.requests import Exec, Move, Ping, Screenshot
from reflexarc_wire.values import Readiness

ANSWERING = 10.0
"""Far above what a busy machine needs for an answer, which a hung server would never give."""


@pytest.fixture
def session() -> Iterator[DesktopSession]:
    with DesktopSession(640, 480) as session:
        yield session


@pytest.fixture
def agent(session: DesktopSession, tmp_path: Path) -> Iterator[Agent]:
    with running(tmp_path / "agent.sock", extra=session.environ) as agent:
        yield agent


def ready(host: Host) -> dict[str, Readiness]:
    ping = host.ask(Ping())
    assert isinstance(ping, PingReply)
    assert ping.readiness is not None
    return dict(ping.readiness)


def hung(host: Host) -> bool:
    """Whether the agent tells that the display hangs; a command runs meanwhile as before."""
    told = ready(host)
    return not told["screen"].ready and "does not answer" in str(told["screen"].reason) and told["exec"].ready


@pytest.mark.parametrize("used", [True, False])
def test_nobody_waits_for_a_display_that_hangs(session: DesktopSession, agent: Agent, used: bool) -> None:
    server = session.program("Xvfb")
    if used:
        with agent.host() as host:
            assert host.ask(Move(1, 1)) == Done("delivered", False)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with agent.host() as waiting, agent.host() as host, agent.host() as running:
            # This one waits for the server, whatever it does.
            waiting.stream.sendall(waiting.end.ask(Screenshot(format="png")))
            for asking in (host, running):
                asking.stream.settimeout(ANSWERING)
            assert hung(host)
            assert running.run(Exec("echo ran")).stdout == b"ran\n"
            assert host.refused(Move(2, 2)).code == "timeout"
            assert hung(host)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    with agent.host() as host:
        assert agent.until(lambda: ready(host)["screen"].ready)
        assert isinstance(host.ask(Screenshot(format="png")), ScreenshotReply)
