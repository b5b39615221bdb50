"""A session whose accessibility bus is long in coming: whoever asks for anything else is answered meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from guests.desktop.session import LAUNCHER, DesktopSession
from tests.agents import Agent, running

from reflexarc_wire import Answer
from reflexarc_wire.replies import AxAppsReply, PingReply
from reflexarc_wire.requests import AxApps, Exec, Ping
from reflexarc_wire.values import Readiness

ACTIVATING = 5.0
"""Far below the time that a D-Bus call waits for a service, far above what a busy machine needs for an answer."""

CONFIGURATION = """<busconfig>
  <type>session</type>
  <listen>unix:tmpdir={folder}</listen>
  <servicedir>{folder}</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>
"""


class HungSession(DesktopSession):
    """A session without a display, in which the accessibility bus comes only once `opened` is called."""

    gone_through = False

    def _start_display(self, runtime: Path) -> None:
        self.environ.update(WAYLAND_DISPLAY="none")

    def _start_windows(self) -> None:
        """Nothing arranges windows, for there are none."""

    def _start_accessibility(self) -> None:
        """Nothing: the session bus starts its service, when it is asked for."""

    def _told(self, command: Sequence[str]) -> str:
        """Start the session bus, the one server here."""
        self.gate = self.folder / "gate"
        os.mkfifo(self.gate)
        script = self.folder / "late"
        script.write_text(f"#!/bin/sh\nread opened <{self.gate}\nexec {LAUNCHER}\n")
        script.chmod(0o755)
        service = f"[D-BUS Service]\nName=org.a11y.Bus\nExec={script}\n"
        (self.folder / "org.a11y.Bus.service").write_text(service)
        configuration = self.folder / "bus.conf"
        configuration.write_text(CONFIGURATION.format(folder=self.folder))
        return super()._told(
            ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address={fd}"]
        )

    def opened(self) -> bool:
        """Let the bus come; returns whether somebody waits for it, or it has come."""
        try:
            os.close(os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return self.gone_through
        self.gone_through = True
        return True


@pytest.fixture
def session() -> Iterator[HungSession]:
    with HungSession() as session:
        yield session
        session.opened()


@pytest.fixture
def agent(session: HungSession, tmp_path: Path) -> Iterator[Agent]:
    with running(tmp_path / "agent.sock", extra=session.environ) as agent:
        yield agent


def readiness(agent: Agent) -> Readiness:
    with agent.host() as host:
        host.stream.settimeout(ACTIVATING)
        ping = host.ask(Ping())
    assert isinstance(ping, PingReply)
    assert ping.readiness is not None
    return ping.readiness["accessibility"]


def test_nobody_waits_for_a_bus_that_does_not_come(session: HungSession, agent: Agent) -> None:
    late = Readiness(
        False,
        "the accessibility bus does not answer yet",
        "run the agent inside the desktop session of the user, with at-spi2-core installed",
    )
    assert readiness(agent) == late
    with agent.host() as asking, agent.host() as host:
        asking.stream.sendall(asking.end.ask(AxApps()))
        host.stream.settimeout(ACTIVATING)
        assert host.run(Exec("echo ran")).stdout == b"ran\n"
        assert readiness(agent) == late
        # It was looked for all the while, and is there as soon as it comes.
        assert agent.until(lambda: session.opened() and readiness(agent).ready)
        answer = asking.next()
        assert isinstance(answer, Answer)
        assert answer.reply == AxAppsReply(())
