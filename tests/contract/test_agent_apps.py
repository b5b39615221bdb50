"""Applications, windows, the clipboard, displays and events of a real desktop, asked for over the wire."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from guests.desktop.session import APPS, SYSTEM_PYTHON, DesktopSession
from tests.agents import Agent, Host, ended, running
from tests.desktop import Driven

from reflexarc_agent.subscription import KEPT, Subscription
from reflexarc_wire import Answer
from reflexarc_wire.replies import (
    AxFindReply,
    ClipboardReply,
    DisplaysReply,
    Done,
    NodeReply,
    PingReply,
    SubscribeReply,
    WindowsReply,
)
from reflexarc_wire.requests import (
    AxAction,
    AxFind,
    AxWait,
    Clipboard,
    Displays,
    LaunchApp,
    Ping,
    Subscribe,
    Windows,
)
from reflexarc_wire.values import AxEvent, Display, DisplayChanged, Rect, Window


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of desktop entries, as XDG_DATA_HOME names one."""
    home = tmp_path_factory.mktemp("data")
    folder = home / "applications"
    folder.mkdir()
    sample = f"Exec={SYSTEM_PYTHON} {APPS / 'gtk3.py'} %F"
    for id_, lines in {
        "org.example.Sample": ["Name=Sample", "Name[de]=Muster", sample],
        "org.example.Gtk4Sample": [
            "Name=Fourth",
            f"Exec={SYSTEM_PYTHON} {APPS / 'gtk4.py'}",
            "DBusActivatable=true",
        ],
        "hidden": ["Name=Sample", "NoDisplay=true", sample],
        "gone": ["Name=Gone", sample, "TryExec=/nowhere/gone"],
        "failing": ["Name=Failing", "Exec=false"],
        "texty": ["Name=Texty", "Exec=true", "Terminal=true"],
    }.items():
        text = "\n".join(["[Desktop Entry]", "Type=Application", *lines, ""])
        (folder / f"{id_}.desktop").write_text(text, "utf-8")
    return home


@pytest.fixture(scope="module")
def agent(
    desktop: DesktopSession, entries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Agent]:
    extra = {**desktop.environ, "XDG_DATA_HOME": str(entries), "XDG_DATA_DIRS": "/nowhere"}
    with running(tmp_path_factory.mktemp("agent") / "agent.sock", extra=extra) as agent:
        yield agent


@pytest.fixture
def host(agent: Agent) -> Iterator[Host]:
    with agent.host() as host:
        yield host


def listed(host: Host) -> tuple[Window, ...]:
    reply = host.ask(Windows())
    assert isinstance(reply, WindowsReply)
    return reply.windows or ()


def own(host: Host, pid: int) -> Window:
    (window,) = [window for window in listed(host) if window.pid == pid]
    return window


def test_an_application_is_started_by_its_name_and_closed(host: Host) -> None:
    before = {window.id for window in listed(host)}
    assert host.ask(LaunchApp("muster")) == Done("delivered", False)
    shown = host.ask(AxWait(role="AXButton", name="Build", timeout=20))
    assert isinstance(shown, NodeReply)
    (new,) = [window for window in listed(host) if window.id not in before]
    assert new.title == "GTK 3 sample"
    closed = host.ask(Windows("close", new.id))
    assert isinstance(closed, WindowsReply)
    assert (closed.delivery, [window.id for window in closed.windows or ()]) == ("delivered", [*before])
    assert new.pid is not None
    assert ended(new.pid)


def test_a_running_application_is_activated_over_its_bus(host: Host) -> None:
    before = {window.id for window in listed(host)}

    def new() -> list[Window]:
        return [window for window in listed(host) if window.id not in before]

    # Nothing has the name on the bus, so it is started by its command, and takes the name.
    assert host.ask(LaunchApp("Fourth")) == Done("delivered", False)
    assert isinstance(host.ask(AxWait(role="AXButton", name="Build", timeout=20)), NodeReply)
    assert host.ask(LaunchApp("Fourth")) == Done("delivered", False)
    while len(new()) < 2:
        pass
    assert len({window.pid for window in new()}) == 1
    pid = new()[0].pid
    for window in new():
        host.ask(Windows("close", window.id))
    assert pid is not None
    assert ended(pid)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Sampel", "no application is named 'Sampel'; there is 'Sample'"),
        ("Gone", "Gone is not installed: /nowhere/gone is missing"),
        ("Failing", "Failing has ended at once, with status 1"),
    ],
)
def test_what_can_not_be_started_is_said(host: Host, name: str, why: str) -> None:
    failure = host.refused(LaunchApp(name))
    assert (failure.code, failure.error) == ("bad_request", why)


def test_windows_are_arranged_and_what_is_not_there_is_refused(host: Host, gtk3: Driven) -> None:
    window = own(host, gtk3.pid)
    moved = host.ask(Windows("move", window.id, Rect(50, 70, 620, 480)))
    assert isinstance(moved, WindowsReply)
    assert (moved.delivery, moved.retry_safe) == ("delivered", False)
    assert own(host, gtk3.pid).frame == Rect(50, 70, 620, 480)
    assert isinstance(host.ask(Windows("activate", window.id)), WindowsReply)
    assert [window.id for window in listed(host) if window.active] == [window.id]
    assert host.refused(Windows("activate", 0x7FFFFFF)).code == "os_error"
    assert host.refused(Windows("activate", "terminal")).code == "bad_request"
    assert host.refused(Windows("move", window.id)).code == "bad_request"


def test_without_a_window_manager_windows_are_listed_and_not_arranged(tmp_path: Path) -> None:
    with DesktopSession() as bare:
        bare.end(bare.program("openbox"))
        app = bare.app("gtk3")
        with running(tmp_path / "agent.sock", extra=bare.environ) as agent, agent.host() as host:
            assert isinstance(host.ask(AxWait(name="Build", timeout=20)), NodeReply)
            assert agent.until(lambda: "GTK 3 sample" in [window.title for window in listed(host)])
            (window,) = [window for window in listed(host) if window.title == "GTK 3 sample"]
            failure = host.refused(Windows("activate", window.id))
        bare.end(app)
    assert failure.code == "unsupported"
    assert "no window manager runs on" in failure.error


@pytest.mark.parametrize("text", ["", "plain", "naïve € 漢 😀\n\ttail", "x" * 1_000_000])
def test_the_clipboard_is_given_and_taken(host: Host, agent: Agent, text: str) -> None:
    assert host.ask(Clipboard("set", text)) == ClipboardReply()
    assert host.ask(Clipboard()) == ClipboardReply(text)


def test_large_texts_go_between_two_clients(host: Host, desktop: DesktopSession, tmp_path: Path) -> None:
    text = "".join(f"line {number} é漢\n" for number in range(40_000))
    with running(tmp_path / "other.sock", extra=desktop.environ) as other, other.host() as second:
        assert host.ask(Clipboard("set", text)) == ClipboardReply()
        assert second.ask(Clipboard()) == ClipboardReply(text)
        assert second.ask(Clipboard("set", "mine now")) == ClipboardReply()
        assert host.ask(Clipboard()) == ClipboardReply("mine now")
    # Its owner is gone, and the text with it.
    assert host.ask(Clipboard()) == ClipboardReply("")


def test_what_another_toolkit_copies_is_taken_and_what_is_put_there_is_pasted(
    host: Host, gtk3: Driven
) -> None:
    entry = gtk3.ref(name="Name")
    gtk3.run(gtk3.session.set_value(entry, "copied é"))
    gtk3.run(gtk3.session.focus(entry))
    keys = gtk3.accessibility.devices
    assert keys is not None
    keys.key("ctrl+a")
    keys.key("ctrl+c")
    while host.ask(Clipboard()) != ClipboardReply("copied é"):
        pass
    assert host.ask(Clipboard("set", "pasted 漢")) == ClipboardReply()
    gtk3.run(gtk3.session.focus(entry))
    keys.key("ctrl+a")
    keys.key("ctrl+v")
    gtk3.wait(name="Name", value="pasted 漢")


def test_the_displays_are_those_of_randr(host: Host) -> None:
    reply = host.ask(Displays())
    assert reply == DisplaysReply((Display("screen", 0, 0, 1280, 1024, 1.0, True),))
    ping = host.ask(Ping())
    assert isinstance(ping, PingReply)
    assert isinstance(reply, DisplaysReply)
    assert ping.displays == reply.displays


def test_a_change_of_the_tree_is_told_with_the_reference_that_is_known(host: Host, gtk3: Driven) -> None:
    assert host.ask(Subscribe(("ax",))) == SubscribeReply(("ax",))
    found = host.ask(AxFind(role="checkbox", name="Verbose"))
    assert isinstance(found, AxFindReply)
    ref = found.nodes[0].ref
    host.stream.sendall(host.end.ask(AxAction(ref, "AXPress")))
    seen: list[object] = []
    while AxEvent("state", ref) not in seen or not any(isinstance(message, Answer) for message in seen):
        seen.append(host.next())
    assert host.refused(Subscribe(("ax", "weather"))).error == (
        "there are the events ax, display_changed, not 'weather'"
    )


def test_a_change_of_the_displays_is_told(tmp_path: Path) -> None:
    with (
        DesktopSession(800, 600) as own_desktop,
        running(tmp_path / "agent.sock", extra=own_desktop.environ) as agent,
        agent.host() as host,
        agent.host() as asking,
    ):
        assert host.ask(Subscribe()) == SubscribeReply(("ax", "display_changed"))
        for change in (
            "--newmode small 25 640 656 752 800 480 490 492 525",
            "--addmode screen small",
            "--output screen --mode small",
        ):
            environ = {**os.environ, **own_desktop.environ}
            subprocess.run(["xrandr", *change.split()], env=environ, check=True)
        smaller = DisplaysReply((Display("screen", 0, 0, 640, 480, 1.0, True),))
        while asking.ask(Displays()) != smaller:
            while host.next() != DisplayChanged():
                pass


def test_a_search_goes_through_every_application_that_answers(
    host: Host, gtk3: Driven, own_gtk3: Driven
) -> None:
    def found(limit: int) -> AxFindReply:
        reply = host.ask(AxFind(role="button", name="Build", limit=limit))
        assert isinstance(reply, AxFindReply)
        return reply

    assert (len(found(20).nodes), found(20).complete) == (2, True)
    assert (len(found(1).nodes), found(1).capped) == (1, "limit")
    os.kill(own_gtk3.pid, signal.SIGSTOP)
    try:
        reply = found(20)
        assert (len(reply.nodes), reply.complete, reply.capped) == (1, False, "time")
    finally:
        os.kill(own_gtk3.pid, signal.SIGCONT)


def test_a_host_that_does_not_read_misses_events_and_is_told_so() -> None:
    subscription = Subscription(("ax",))
    assert select.select([subscription], [], [], 0)[0] == []
    for number in range(3 * KEPT):
        subscription.put(AxEvent("state", number % (2 * KEPT)))
    subscription.put(DisplayChanged())
    assert select.select([subscription], [], [], 0)[0] == [subscription]
    assert subscription.take() == [AxEvent("lost"), DisplayChanged()]
    for _ in range(3):
        subscription.put(AxEvent("state", 1))
    assert subscription.take() == [AxEvent("state", 1)]
    assert select.select([subscription], [], [], 0)[0] == []
    subscription.close()
    subscription.put(AxEvent("state", 2))
