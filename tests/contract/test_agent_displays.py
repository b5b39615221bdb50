"""The display is that of the session there is when it is asked for, and its changes are told, on Wayland too."""

from __future__ import annotations

import subprocess
from pathlib import Path

from guests.desktop.session import DesktopSession
from guests.desktop.wayland import SwaySession
from tests.agents import running

from reflexarc_agent.backend import RefusalError
from reflexarc_agent.backends.linux.login import SessionEnvironment
from reflexarc_agent.backends.linux.serving import backends
from reflexarc_agent.registry import Registry
from reflexarc_wire.replies import DisplaysReply, SubscribeReply
from reflexarc_wire.requests import Displays, Subscribe
from reflexarc_wire.values import Display, DisplayChanged


def test_one_session_may_follow_another_of_the_other_kind(tmp_path: Path) -> None:
    registry = Registry(backends(SessionEnvironment({}, tmp_path)))
    host = registry.open()

    def displays(session: DesktopSession) -> DisplaysReply:
        program = session.start(["sleep", "infinity"])
        link = tmp_path / str(program.pid)
        link.symlink_to(f"/proc/{program.pid}")
        while True:
            try:
                found = host.perform(Displays())
            except RefusalError:
                # It looks for a session once a second.
                assert program.poll() is None
                continue
            assert isinstance(found, DisplaysReply)
            link.unlink()
            return found

    with DesktopSession(640, 480) as on_x11:
        assert displays(on_x11) == DisplaysReply((Display("screen", 0, 0, 640, 480, 1.0, True),))
    with SwaySession(["resolution 800x600"]) as on_wayland:
        assert displays(on_wayland) == DisplaysReply((Display("HEADLESS-1", 0, 0, 800, 600, 1.0, True),))
    with DesktopSession(640, 480) as on_x11:
        assert displays(on_x11) == DisplaysReply((Display("screen", 0, 0, 640, 480, 1.0, True),))
    host.close()


def test_a_change_of_the_outputs_is_told(tmp_path: Path) -> None:
    with (
        SwaySession(["resolution 800x600"]) as session,
        running(tmp_path / "agent.sock", extra=session.environ) as agent,
        agent.host() as host,
        agent.host() as asking,
    ):
        assert host.ask(Subscribe(("display_changed",))) == SubscribeReply(("display_changed",))
        subprocess.run(
            ["swaymsg", "output", "HEADLESS-1", "resolution", "640x480"], env=session.environ, check=True
        )
        smaller = DisplaysReply((Display("HEADLESS-1", 0, 0, 640, 480, 1.0, True),))
        while asking.ask(Displays()) != smaller:
            assert host.next() == DisplayChanged()
        subprocess.run(["swaymsg", "create_output"], env=session.environ, check=True)
        assert host.next() == DisplayChanged()
