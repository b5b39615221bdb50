"""A desktop session that begins after the agent, and a user's bus reached from root."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from guests.desktop.session import DesktopSession

from reflexarc_agent.backends.linux.dbus.bus import Bus
from reflexarc_agent.backends.linux.dbus.errors import BusConnectError
from reflexarc_agent.backends.linux.dbus.owner import foreign_owner
from reflexarc_agent.backends.linux.login import SessionEnvironment
from reflexarc_agent.backends.linux.serving import backends

NOBODY = pwd.getpwnam("nobody")


def ready(environ: SessionEnvironment) -> dict[str, bool]:
    return {backend.feature: backend.readiness().ready for backend in backends(environ)}


def test_the_features_of_a_desktop_become_ready_with_it(tmp_path: Path) -> None:
    environ = SessionEnvironment({}, tmp_path)
    before = ready(environ)
    assert {"screen", "input", "accessibility"} <= before.keys()
    assert not any(before[feature] for feature in ("screen", "input", "accessibility"))
    with DesktopSession(640, 480) as desktop:
        app = desktop.app("gtk3")
        (tmp_path / str(app.pid)).symlink_to(f"/proc/{app.pid}")
        while not all(ready(environ).values()):
            assert app.poll() is None
        assert environ["DISPLAY"] == desktop.environ["DISPLAY"]
        desktop.end(app)


@contextmanager
def bus_of_nobody() -> Iterator[str]:
    """A session bus that another user runs; its address."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
        process = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--print-address", f"--address=unix:path={folder}/bus"],
            stdout=subprocess.PIPE, text=True, user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[],
        )  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def test_root_reaches_the_bus_of_a_user_as_that_user() -> None:
    async def named(address: str) -> str:
        bus = await Bus.connect(address)
        bus.close()
        return bus.name

    if os.geteuid() != 0:
        # Only root would connect as somebody else.
        assert foreign_owner("/run") is None
        return
    with bus_of_nobody() as address:
        assert asyncio.run(named(address)).startswith(":1.")


def test_a_bus_that_does_not_answer_says_so(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "bus"))
        if os.geteuid() == 0:
            os.chown(tmp_path / "bus", NOBODY.pw_uid, -1)
        with pytest.raises(BusConnectError, match="can't be reached"):
            asyncio.run(Bus.connect(f"unix:path={tmp_path}/bus"))
    assert os.geteuid() == os.stat(tmp_path).st_uid
