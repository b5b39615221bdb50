"""Which desktop session the agent finds, by a made-up /proc and made-up displays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflexarc_agent.backends.linux.login import SessionEnvironment, find_login


class Processes:
    """A folder like /proc, and a runtime folder with displays."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.runtime = folder / "proc", folder / "runtime"
        self.proc.mkdir()
        self.runtime.mkdir()
        self.count = 0

    def display(self, name: str) -> Path:
        path = self.runtime / name
        path.touch()
        return path

    def add(self, owner: int | None = None, **environ: str) -> None:
        self.count += 1
        folder = self.proc / str(self.count)
        folder.mkdir()
        values = {"XDG_RUNTIME_DIR": str(self.runtime), **environ}
        text = "".join(f"{name}={value}\0" for name, value in values.items())
        (folder / "environ").write_text(text)
        if owner is not None:
            os.chown(folder, owner, -1)


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_a_guest_without_a_display_has_no_session(processes: Processes) -> None:
    assert find_login(processes.proc) is None
    processes.add(DBUS_SESSION_BUS_ADDRESS="unix:path=/b")
    processes.add(WAYLAND_DISPLAY="gone")
    processes.add(DISPLAY="localhost:10.0")
    processes.add(DISPLAY="nonsense", WAYLAND_DISPLAY="")
    (processes.proc / "77").mkdir()
    assert find_login(processes.proc) is None


def test_what_the_programs_of_the_session_have_is_taken_and_nothing_else(processes: Processes) -> None:
    processes.display("wayland-1")
    processes.add(WAYLAND_DISPLAY="wayland-1")
    processes.add(WAYLAND_DISPLAY="wayland-1", DBUS_SESSION_BUS_ADDRESS="unix:path=/b", SECRET="s", PATH="/")
    login = find_login(processes.proc)
    assert login is not None
    assert {**login.values, "XAUTHORITY": ""} == {
        "WAYLAND_DISPLAY": "wayland-1",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/b",
        "XDG_RUNTIME_DIR": str(processes.runtime),
        "XAUTHORITY": "",
    }


def test_of_two_displays_that_of_most_programs_is_the_desktop(processes: Processes) -> None:
    for name, programs in (("nested", 1), ("desktop", 3)):
        processes.display(name)
        for _ in range(programs):
            processes.add(WAYLAND_DISPLAY=name)
    login = find_login(processes.proc)
    assert login is not None
    assert login.values["WAYLAND_DISPLAY"] == "desktop"


def test_the_sessions_of_other_users_are_roots_to_use_where_there_is_one(processes: Processes) -> None:
    if os.geteuid() != 0:
        # Others' environments can't even be made up without root.
        return
    processes.display("wayland-1")
    processes.add(owner=54321, WAYLAND_DISPLAY="wayland-1")
    login = find_login(processes.proc)
    assert login is not None
    assert login.uid == 54321
    processes.add(owner=54322, WAYLAND_DISPLAY="wayland-1")
    assert find_login(processes.proc) is None
    environ: dict[str, str] = {}
    (processes.proc / "2/environ").unlink()
    assert SessionEnvironment(environ, processes.proc)["WAYLAND_DISPLAY"] == "wayland-1"
    # Root's commands are none of that user's programs.
    assert environ.keys() <= {"XAUTHORITY"}


def test_a_display_that_was_given_is_the_one_that_counts(processes: Processes) -> None:
    processes.display("wayland-1")
    processes.add(WAYLAND_DISPLAY="wayland-1")
    given = {"DISPLAY": ":5", "HOME": "/h"}
    assert dict(SessionEnvironment(given, processes.proc)) == given


def test_a_session_that_begins_later_and_the_next_one_are_found(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    environ = {"HOME": "/h", "XDG_RUNTIME_DIR": "/as/started"}
    session = SessionEnvironment(environ, processes.proc)
    assert session.get("WAYLAND_DISPLAY") is None
    first = processes.display("wayland-1")
    processes.add(WAYLAND_DISPLAY="wayland-1")
    assert session.get("WAYLAND_DISPLAY") is None
    now = 2.0
    assert session["WAYLAND_DISPLAY"] == "wayland-1"
    assert environ["XDG_RUNTIME_DIR"] == str(processes.runtime)
    now = 4.0
    first.unlink()
    assert session.get("WAYLAND_DISPLAY") is None
    assert environ == {"HOME": "/h", "XDG_RUNTIME_DIR": "/as/started"}
    processes.display("wayland-2")
    processes.add(WAYLAND_DISPLAY="wayland-2", XDG_CURRENT_DESKTOP="x")
    now = 6.0
    assert session["WAYLAND_DISPLAY"] == "wayland-2"
    assert environ["XDG_CURRENT_DESKTOP"] == "x"
