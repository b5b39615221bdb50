"""A real application driven through a real agent: what the host asks for over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guests.desktop.session import DesktopSession
from tests.agents import Host, running
from tests.desktop import Driven

from reflexarc_wire.replies import (
    AxAppsReply,
    AxDumpReply,
    AxFindReply,
    Done,
    NodeReply,
    PingReply,
    ScreenshotReply,
)
from reflexarc_wire.requests import (
    AxAction,
    AxApps,
    AxDump,
    AxFind,
    AxSetValue,
    AxWait,
    Click,
    KeyChord,
    Ping,
    Screenshot,
    TypeText,
)


@pytest.fixture(scope="module")
def host(desktop: DesktopSession, gtk3: Driven, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with (
        running(tmp_path_factory.mktemp("agent") / "agent.sock", extra=desktop.environ) as agent,
        agent.host() as host,
    ):
        yield host


def test_the_agent_offers_what_the_desktop_has(host: Host) -> None:
    ping = host.ask(Ping())
    assert isinstance(ping, PingReply)
    assert ping.features == ("exec", "files", "screen", "input", "accessibility", "apps", "clipboard")
    assert all(readiness.ready for readiness in (ping.readiness or {}).values())


def test_a_button_is_found_pressed_and_its_effect_awaited(host: Host, gtk3: Driven) -> None:
    shown = host.ask(AxWait(role="AXButton", name="Build"))
    assert isinstance(shown, NodeReply)
    assert shown.node is not None
    assert host.ask(AxAction(shown.node.ref, "AXPress")) == Done("delivered", False)
    built = host.ask(AxWait(name="built"))
    assert isinstance(built, NodeReply)
    assert built.node is not None
    assert (built.node.role, built.node.native) == ("AXStaticText", "label")
    apps = host.ask(AxApps())
    assert isinstance(apps, AxAppsReply)
    assert gtk3.pid in [app.pid for app in apps.apps]


def test_a_tree_and_its_outline_are_dumped(host: Host, gtk3: Driven) -> None:
    tree, text = host.ask(AxDump(gtk3.pid)), host.ask(AxDump(gtk3.pid, format="outline"))
    assert isinstance(tree, AxDumpReply)
    assert isinstance(text, AxDumpReply)
    assert (tree.complete, tree.capped, tree.outline) == (True, None, None)
    assert tree.tree is not None
    assert tree.tree.children[0].title == "GTK 3 sample"
    assert '- button "Build" [ref=' in (text.outline or "")


def test_text_is_typed_where_the_focus_is(host: Host) -> None:
    found = host.ask(AxFind(role="AXTextField", name="Name"))
    assert isinstance(found, AxFindReply)
    (field,) = found.nodes
    assert host.ask(AxSetValue(field.ref, "")) == Done("delivered", False)
    assert field.frame is not None
    host.ask(Click(field.frame.x + 5, field.frame.y + 5))
    assert host.ask(TypeText("héllo")) == Done("delivered", False)
    assert isinstance(host.ask(AxWait(name="Name", value="héllo")), NodeReply)
    host.ask(KeyChord("ctrl+a"))


def test_a_picture_is_taken(host: Host) -> None:
    taken = host.ask(Screenshot(format="png"))
    assert isinstance(taken, ScreenshotReply)
    assert (taken.width, taken.height, taken.format, taken.image[:4]) == (1280, 1024, "png", b"\x89PNG")


def test_what_goes_wrong_has_its_code(host: Host) -> None:
    assert host.refused(AxAction("e999999", "AXPress")).code == "stale_ref"
    assert host.refused(AxWait(name="never", timeout=0.1)).code == "timeout"
    assert host.refused(KeyChord("nokey")).code == "bad_request"
    assert host.refused(Screenshot(window=0x7FFFFFF)).code == "os_error"
    assert host.refused(Screenshot(window="terminal")).code == "bad_request"


def test_what_is_not_done_is_not_passed_over(host: Host, desktop: DesktopSession) -> None:
    assert host.refused(Screenshot(scale=0.5)).code == "unsupported"
    assert host.refused(Screenshot(display=":99")).code == "unsupported"
    whole = Screenshot(display=desktop.environ["DISPLAY"], scale=1.0, format="png")
    assert isinstance(host.ask(whole), ScreenshotReply)
