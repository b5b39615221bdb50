"""An agent in a Wayland session: what it offers under sway, and what it refuses under weston, which offers nothing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from guests.desktop.wayland import SwaySession, WestonSession
from PIL import Image
from tests.agents import Host, running

from reflexarc_wire.replies import (
    AxDumpReply,
    ClipboardReply,
    DisplaysReply,
    Done,
    NodeReply,
    PingReply,
    ScreenshotReply,
    WindowsReply,
)
from reflexarc_wire.requests import (
    AxAction,
    AxDump,
    AxSetValue,
    AxWait,
    Click,
    Clipboard,
    Cursor,
    Displays,
    KeyChord,
    KeyDown,
    MouseDown,
    Move,
    Ping,
    Request,
    Screenshot,
    TypeText,
    Windows,
)
from reflexarc_wire.values import Display, Node, Rect

OUTPUTS = ("resolution 1280x1024 position 50 60", "resolution 800x600 scale 2 position 1330 60")


@pytest.fixture(scope="module")
def sway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host of an agent under sway with an application."""
    with (
        SwaySession(OUTPUTS) as session,
        running(tmp_path_factory.mktemp("sway") / "agent.sock", extra=session.environ) as agent,
        agent.host() as host,
    ):
        host.ask(KeyChord("shift"))
        session.app("gtk3")
        placed(host)
        yield host


@pytest.fixture(scope="module")
def weston(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host of an agent under weston with an application."""
    with (
        WestonSession() as session,
        running(tmp_path_factory.mktemp("weston") / "agent.sock", extra=session.environ) as agent,
        agent.host() as host,
    ):
        session.app("gtk3")
        shown(host)
        yield host


def shown(host: Host, **wanted: str) -> Node:
    reply = host.ask(AxWait(**({"role": "AXButton", "name": "Build"} | wanted), timeout=20))  # type: ignore[arg-type]
    assert isinstance(reply, NodeReply), reply
    assert reply.node is not None
    return reply.node


def placed(host: Host, **wanted: str) -> Node:
    """The element, once its window has settled and the element has a place."""
    while (node := shown(host, **wanted)).frame is None:
        continue
    return node


def test_sway_lets_the_agent_do_everything(sway: Host) -> None:
    ping = sway.ask(Ping())
    assert isinstance(ping, PingReply)
    assert ping.features is not None
    assert {"screen", "input", "accessibility", "apps", "clipboard"} < set(ping.features)
    assert [name for name, known in (ping.readiness or {}).items() if not known.ready] == []


def test_displays_and_pictures_of_them(sway: Host) -> None:
    assert sway.ask(Displays()) == DisplaysReply(
        (Display("HEADLESS-1", 0, 0, 1280, 1024, 1, True), Display("HEADLESS-2", 1280, 0, 400, 300, 2, False))
    )
    taken = sway.ask(Screenshot(format="png", display="HEADLESS-2", region=Rect(1290, 5, 20, 10)))
    assert isinstance(taken, ScreenshotReply)
    assert (taken.width, taken.height, taken.scale, taken.format) == (40, 20, 2, "png")
    assert Image.open(io.BytesIO(taken.image)).size == (40, 20)
    photo = sway.ask(Screenshot())
    assert isinstance(photo, ScreenshotReply)
    assert (photo.width, photo.height, photo.format, photo.image[:2]) == (1280, 1024, None, b"\xff\xd8")
    assert sway.refused(Screenshot(display="DP-7")).code == "unsupported"
    assert sway.refused(Screenshot(scale=0.5)).code == "unsupported"
    assert sway.refused(Screenshot(region=Rect(1e300, 0, 1, 1))).code == "bad_request"
    assert sway.refused(Cursor()).code == "unsupported"


def test_a_button_is_clicked_where_its_node_says(sway: Host) -> None:
    frame = shown(sway).frame
    assert frame is not None
    assert sway.ask(Click(frame.x + 3, frame.y + 3)) == Done("delivered", False)
    assert shown(sway, role="label", name="built").native == "label"


def test_text_is_typed_where_the_focus_is(sway: Host) -> None:
    field = shown(sway, role="AXTextField", name="Name")
    assert sway.ask(AxSetValue(field.ref, "")) == Done("delivered", False)
    assert field.frame is not None
    sway.ask(Click(field.frame.x + 20, field.frame.y + 15))
    assert sway.ask(TypeText("héllo 漢")) == Done("delivered", False)
    assert shown(sway, role="AXTextField", name="Name", value="héllo 漢").value == "héllo 漢"


def test_windows_and_clipboard(sway: Host) -> None:
    listed = sway.ask(Windows())
    assert isinstance(listed, WindowsReply)
    assert listed.windows is not None
    (window,) = listed.windows
    assert (window.title, window.active) == ("GTK 3 sample", True)
    assert sway.ask(Windows("activate", window.id)) == WindowsReply(listed.windows, "delivered", False)
    assert sway.refused(Windows("move", window.id, Rect(0, 0, 9, 9))).code == "unsupported"
    assert sway.refused(Windows("close", 99999)).code == "os_error"
    assert sway.ask(Clipboard("set", "kept")) == ClipboardReply()
    assert sway.ask(Clipboard()) == ClipboardReply("kept")


def test_what_is_held_down_is_let_go_when_the_connection_ends(tmp_path: Path) -> None:
    with (
        SwaySession() as session,
        running(tmp_path / "agent.sock", extra=session.environ) as agent,
        agent.host() as host,
    ):
        host.ask(KeyChord("shift"))
        session.app("gtk3")
        field = placed(host, role="AXTextField", name="Name")
        host.ask(AxSetValue(field.ref, ""))
        assert field.frame is not None
        host.ask(Click(field.frame.x + 20, field.frame.y + 15))
        with agent.host() as other:
            assert other.ask(KeyDown("shift")) == Done("delivered", False)
            assert other.ask(MouseDown(field.frame.x + 20, field.frame.y + 15)) == Done("delivered", False)
            host.ask(KeyChord("a"))
            shown(host, role="AXTextField", name="Name", value="A")

        def let_go() -> bool:
            host.ask(AxSetValue(field.ref, ""))
            host.ask(KeyChord("b"))
            reply = host.ask(AxWait("AXTextField", "Name", value="b", timeout=0.5))
            return isinstance(reply, NodeReply)

        assert any(let_go() for _ in range(10))


@pytest.mark.parametrize(
    "request_",
    [
        *(Screenshot(), Click(1, 1), Move(1, 1), TypeText("a"), KeyChord("enter"), KeyDown("a")),
        *(MouseDown(1, 1), Windows(), Clipboard(), Clipboard("set", "x"), Cursor()),
    ],
)
def test_what_weston_does_not_offer_is_refused_with_a_reason(weston: Host, request_: Request) -> None:
    failure = weston.refused(request_)
    assert failure.code == "unsupported"
    assert "does not offer" in failure.error or "doesn't tell" in failure.error


def test_under_weston_only_the_tree_is_ready_and_it_tells_no_places(weston: Host) -> None:
    ping = weston.ask(Ping())
    assert isinstance(ping, PingReply)
    assert ping.readiness is not None
    ready = {name: known.ready for name, known in ping.readiness.items()}
    assert ready == {
        "exec": True,
        "files": True,
        "accessibility": True,
        "screen": False,
        "input": False,
        "apps": True,
        "clipboard": False,
    }
    reason = ping.readiness["screen"].reason or ""
    assert "the host-side screen and keyboard serve" in reason
    button = shown(weston)
    assert button.frame is None
    dumped = weston.ask(AxDump())
    assert isinstance(dumped, AxDumpReply)
    stack, frames = [dumped.tree], 0
    while stack:
        node = stack.pop()
        assert node is not None
        frames += node.frame is not None
        stack.extend(node.children)
    assert frames == 0
    assert weston.ask(AxAction(button.ref, "AXPress")) == Done("delivered", False)
    assert shown(weston, role="label", name="built").native == "label"
