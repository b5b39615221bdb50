"""The accessibility tree of a real GTK 3 application, read and acted on; the toolkit with every fast way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from guests.desktop.session import SYSTEM_PYTHON, DesktopSession
from tests.desktop import Driven

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.errors import (
    StaleRefError,
    TimedOutError,
    UnavailableError,
    UnsupportedError,
)
from reflexarc_agent.backends.linux.atspi.roles import ROLES
from reflexarc_agent.backends.linux.atspi.selecting import Selector


def flat(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(found for child in node["children"] for found in flat(child))]


def pairs(tree: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter((node.get("native", node["role"]), node.get("title", "")) for node in flat(tree))


def test_the_tree_is_the_one_that_libatspi_reads(gtk3: Driven, desktop: DesktopSession) -> None:
    reader = [SYSTEM_PYTHON, "guests/desktop/libatspi.py", str(gtk3.pid)]
    done = subprocess.run(reader, env=desktop.environ, capture_output=True, check=True)
    theirs = Counter((ROLES[role], name) for role, name in json.loads(done.stdout)["pairs"])
    dump = gtk3.run(gtk3.session.dump(gtk3.pid))
    assert (dump["complete"], dump["capped"], dump["count"]) == (True, None, theirs.total())
    assert pairs(dump["tree"]) == theirs


def test_an_outline_shows_what_is_on_the_screen(gtk3: Driven) -> None:
    lines = gtk3.outline()
    assert 'checkbox "Verbose"' in [line.removeprefix("- ").split(" [")[0] for line in lines]
    assert [line.split(" [")[0] for line in lines if "Name" in line or "Secret" in line] == [
        '- textbox "Name"',
        '- password "Secret"',
    ]
    assert not any("hunter2" in line for line in lines)


def test_pressing_a_button_is_delivered_and_seen(gtk3: Driven) -> None:
    delivery = gtk3.run(gtk3.session.act(gtk3.ref(role="AXButton", name="Build"), "AXPress"))
    assert (delivery.delivery, delivery.retry_safe, delivery.way) == ("delivered", False, "action")
    assert gtk3.wait(name="built")["role"] == "AXStaticText"
    assert gtk3.find(name="idle") == []


def test_a_modal_dialog_answers_nothing_late_and_is_answered_itself(gtk3: Driven) -> None:
    assert gtk3.run(gtk3.session.act(gtk3.ref(name="Ask"), "AXPress")).delivery == "delivered"
    gtk3.wait(text="Sure")
    ok = gtk3.ref(role="button", name="OK")
    assert gtk3.run(gtk3.session.act(ok, "click")).delivery == "delivered"
    gtk3.wait(name="agreed")
    with pytest.raises(StaleRefError, match="dump again"):
        gtk3.run(gtk3.session.act(ok, "AXPress"))


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [("Name", "new € 漢", "new € 漢"), ("Name", "", ""), ("Level", 42, 42.0), ("Verbose", True, 1)],
)
def test_values_are_set_and_read_again(gtk3: Driven, name: str, value: Any, held: Any) -> None:
    (node,) = gtk3.find(name=name)
    assert gtk3.run(gtk3.session.set_value(node["ref"], value)).delivery == "delivered"
    (after,) = gtk3.find(name=name)
    assert (after["ref"], after["value"]) == (node["ref"], held)
    assert gtk3.run(gtk3.session.set_value(node["ref"], value)).delivery == "delivered"


@pytest.mark.parametrize(("name", "value"), [("Verbose", "true"), ("Level", "42")])
def test_no_keys_are_typed_into_what_takes_no_text(gtk3: Driven, name: str, value: str) -> None:
    (before,) = gtk3.find(name=name)
    with pytest.raises(UnsupportedError, match=f"takes .*, not '{value}'"):
        gtk3.run(gtk3.session.set_value(before["ref"], value))
    (after,) = gtk3.find(name=name)
    assert after == before


def test_a_password_is_set_and_never_read(gtk3: Driven) -> None:
    ref = gtk3.ref(name="Secret")
    assert gtk3.run(gtk3.session.set_value(ref, "correct horse")).delivery == "delivered"
    assert "value" not in gtk3.find(name="Secret")[0]


def test_an_outline_is_told_again_until_something_changes(gtk3: Driven) -> None:
    gtk3.run(gtk3.session.set_value(gtk3.ref(name="Verbose"), False))
    before = gtk3.outline()
    assert gtk3.outline() == before
    gtk3.run(gtk3.session.set_value(gtk3.ref(name="Verbose"), True))
    assert [line for line in gtk3.outline() if line not in before] == [
        f'- checkbox "Verbose" [ref={gtk3.ref(name="Verbose")}] [checked]'
    ]


def test_focus_is_verified(gtk3: Driven) -> None:
    for name in ("Build", "Name"):
        (node,) = gtk3.find(name=name)
        assert gtk3.run(gtk3.session.focus(node["ref"])).delivery == "delivered"
        gtk3.run(gtk3.session.dump(gtk3.pid))
        assert [node["focused"] for node in gtk3.find(name=name)] == [True]


def test_elements_come_and_go_and_others_keep_their_refs(gtk3: Driven) -> None:
    build = gtk3.ref(name="Build")
    gtk3.run(gtk3.session.act(gtk3.ref(name="Add"), "AXPress"))
    added = gtk3.wait(role="button", name="Added")
    gtk3.run(gtk3.session.act(gtk3.ref(name="Drop"), "AXPress"))
    assert gtk3.wait(name="Added", gone=True) == {}
    assert gtk3.ref(name="Build") == build
    with pytest.raises(StaleRefError):
        gtk3.run(gtk3.session.focus(added["ref"]))


def test_an_element_that_was_renamed_is_the_same_element(own_gtk3: Driven) -> None:
    ref = own_gtk3.ref(name="Rename")
    own_gtk3.run(own_gtk3.session.act(ref, "AXPress"))
    assert own_gtk3.wait(name="Renamed")["ref"] == ref
    assert own_gtk3.run(own_gtk3.session.act(ref, "AXPress")).delivery == "delivered"


def test_what_happens_later_is_waited_for(gtk3: Driven) -> None:
    gtk3.run(gtk3.session.act(gtk3.ref(name="Later"), "AXPress"))
    assert gtk3.wait(name="done 1")["title"] == "done 1"
    with pytest.raises(TimedOutError, match=r"^element \"[^\"]*\" was not there within 0\.2 s$"):
        gtk3.wait(name="never", timeout=0.2)


def test_the_element_at_a_point_is_found(gtk3: Driven) -> None:
    (build,) = gtk3.find(name="Build")
    frame = build["frame"]
    x, y = frame["x"] + frame["w"] / 2, frame["y"] + frame["h"] / 2
    assert gtk3.run(gtk3.session.element_at(x, y, gtk3.pid))["node"]["ref"] == build["ref"]
    assert gtk3.run(gtk3.session.element_at(-50, -50, gtk3.pid)) == {"node": None}


def test_a_subtree_is_dumped_by_its_ref(gtk3: Driven) -> None:
    (window,) = gtk3.find(role="AXWindow")
    tree = gtk3.run(gtk3.session.dump(root=window["ref"], max_depth=1))
    assert (tree["tree"]["title"], tree["complete"], tree["capped"]) == ("GTK 3 sample", False, "depth")


def test_what_an_element_does_not_offer_is_said(gtk3: Driven) -> None:
    ref = gtk3.ref(name="Build")
    assert gtk3.run(gtk3.session.actions(ref)) == ["AXPress"]
    with pytest.raises(UnsupportedError, match="push-button 'Build' offers click, not AXIncrement"):
        gtk3.run(gtk3.session.act(ref, "AXIncrement"))


def test_a_hung_application_costs_one_timeout_and_keeps_nobody_waiting(
    own_gtk3: Driven, desktop: DesktopSession, accessibility: Accessibility
) -> None:
    other = desktop.app("gtk3")
    second = Driven(accessibility, other.pid)
    second.wait(role="button", name="Build")
    os.kill(own_gtk3.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as pool:
            stuck = pool.submit(own_gtk3.run, own_gtk3.session.dump(own_gtk3.pid, deadline=1.5))
            assert second.run(second.session.dump(second.pid))["complete"]
            assert not stuck.done()
            with pytest.raises(TimedOutError, match=f"process {own_gtk3.pid}"):
                stuck.result()
        assert other.pid in [app["pid"] for app in second.run(second.session.apps())]
        anywhere = Selector(role="button", name="Rename")
        assert second.run(second.session.wait(anywhere))["node"]["title"] == "Rename"
    finally:
        os.kill(own_gtk3.pid, signal.SIGCONT)
        desktop.end(other)
    assert own_gtk3.run(own_gtk3.session.dump(own_gtk3.pid))["complete"]


def test_an_application_that_has_ended_is_gone(own_gtk3: Driven) -> None:
    ref = own_gtk3.ref(name="Build")
    os.kill(own_gtk3.pid, signal.SIGTERM)
    own_gtk3.accessibility.run(gone(own_gtk3))
    with pytest.raises(StaleRefError, match=r"(has ended|is gone): dump again"):
        own_gtk3.run(own_gtk3.session.act(ref, "AXPress"))
    with pytest.raises(UnavailableError, match=f"process {own_gtk3.pid} is not on the accessibility bus"):
        own_gtk3.run(own_gtk3.session.dump(own_gtk3.pid))


async def gone(driven: Driven) -> None:
    """Wait until the application is off the bus."""
    while driven.pid in [app["pid"] for app in await driven.session.apps()]:
        pass


def test_where_there_is_no_session_that_is_said(tmp_path: Any) -> None:
    with pytest.raises(UnavailableError, match="no accessibility bus: there is no session bus"):
        Accessibility({"XDG_RUNTIME_DIR": str(tmp_path)}).open()
