"""References, nodes, outlines and selectors, on trees made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from reflexarc_agent.backends.linux.atspi import refs
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.element import Element, Frame
from reflexarc_agent.backends.linux.atspi.errors import StaleRefError
from reflexarc_agent.backends.linux.atspi.events import apply
from reflexarc_agent.backends.linux.atspi.names import STATE
from reflexarc_agent.backends.linux.atspi.nodes import Budget, ax_actions, node, tree
from reflexarc_agent.backends.linux.atspi.outline import outline, quoted, written
from reflexarc_agent.backends.linux.atspi.refs import Refs
from reflexarc_agent.backends.linux.atspi.roles import ROLES, role_named
from reflexarc_agent.backends.linux.atspi.selecting import Selector, matching, path
from reflexarc_agent.backends.linux.dbus import message as m
from reflexarc_agent.backends.linux.dbus.bus import Bus
from reflexarc_agent.backends.linux.dbus.encoding import Variant

SHOWN = "showing", "visible", "enabled", "sensitive"


def element(
    app: Application, role: str, name: str = "", *states: str, above: Element | None = None
) -> Element:
    made = Element((app.owner, f"/e/{len(app.elements)}"))
    made.number, made.name = ROLES.index(role), name
    made.states = sum(STATE[state] for state in (*SHOWN, *states))
    made.parent = above or app.root
    made.parent.children.append(made)
    app.elements[made.key] = made
    return made


@pytest.fixture
def app() -> Application:
    async def make() -> Application:
        return Application(":1.5", Bus(), "editor", 42)

    app = asyncio.run(make())
    app.root.number, app.root.name = ROLES.index("application"), "editor"
    app.elements[app.root.key] = app.root
    return app


@pytest.fixture
def window(app: Application) -> Element:
    window = element(app, "frame", "Untitled")
    box = element(app, "panel", above=window)
    build = element(app, "push-button", "Build", "focusable", "focused", above=box)
    build.frame, build.actions = Frame(10, 20, 30, 40), ("click",)
    element(app, "label", "Build", above=build)
    entry = element(app, "entry", "Name", "focusable", "editable", above=box)
    entry.value = "a\nb"
    element(app, "check-box", "Verbose", "focusable", "checked", above=box)
    hidden = element(app, "push-button", "Hidden", "focusable", above=box)
    hidden.states &= ~STATE["showing"]
    return window


def test_an_outline_is_compact(app: Application, window: Element) -> None:
    assert written(outline(app, app.root, Refs().name, Budget())).splitlines() == [
        '- application "editor"',
        '  - window "Untitled" [ref=e1]',
        '    - button "Build" [ref=e2] [focused]',
        '    - textbox "Name" [ref=e3]: "a\\nb"',
        '    - checkbox "Verbose" [ref=e4] [checked]',
    ]


def test_an_interactive_outline_keeps_windows_and_controls(app: Application, window: Element) -> None:
    element(app, "label", "only text", above=window)
    assert written(outline(app, app.root, Refs().name, Budget(), interactive_only=True)).splitlines() == [
        '- window "Untitled" [ref=e1]',
        '- button "Build" [ref=e2] [focused]',
        '- textbox "Name" [ref=e3]: "a\\nb"',
        '- checkbox "Verbose" [ref=e4] [checked]',
    ]


def test_names_stay_on_one_line_and_short() -> None:
    assert quoted('a\n"b"\x1b\x7f') == '"a\\n\\"b\\"\\u001b\\u007f"'
    assert len(quoted("x" * 5000)) == 202


def test_a_node_has_the_fields_of_the_wire(app: Application, window: Element) -> None:
    build = window.children[0].children[0]
    assert node(build, Refs().name) == {
        "ref": "e1",
        "role": "AXButton",
        "native": "push-button",
        "title": "Build",
        "enabled": True,
        "focused": True,
        "frame": {"x": 10, "y": 20, "w": 30, "h": 40},
        "actions": ["AXPress"],
    }


def counted(tree: dict[str, Any]) -> int:
    return 1 + sum(counted(child) for child in tree["children"])


@pytest.mark.parametrize(
    ("budget", "capped", "count"),
    [
        (Budget(), None, 8),
        (Budget(nodes=3), "nodes", 3),
        (Budget(depth=1), "depth", 2),
        (Budget(bytes=700), "bytes", 2),
    ],
)
def test_a_tree_says_what_capped_it(
    app: Application, window: Element, budget: Budget, capped: str | None, count: int
) -> None:
    told = tree(app.root, Refs().name, budget)
    assert (budget.capped, budget.count, counted(told)) == (capped, count, count)


def test_a_list_that_was_not_read_whole_caps_the_tree(app: Application, window: Element) -> None:
    window.children[0].capped, window.children[0].child_count = True, 2147483647
    budget = Budget()
    tree(app.root, Refs().name, budget)
    assert budget.capped == "children"


def test_a_capped_outline_says_so(app: Application, window: Element) -> None:
    budget = Budget(nodes=2)
    lines = outline(app, app.root, Refs().name, budget)
    assert written(lines, budget.capped).splitlines()[2:] == ["# capped: nodes"]


def test_actions_have_their_ax_names_once() -> None:
    assert ax_actions(("click", "activate", "expand or contract", "frobnicate", "")) == (
        "AXPress",
        "AXExpand",
        "frobnicate",
    )


@pytest.mark.parametrize("word", ["AXButton", "push-button", "push button", "button"])
def test_a_role_has_several_names(word: str) -> None:
    assert "push-button" in role_named(word)
    assert "entry" not in role_named(word)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (Selector(role="button"), ["Build"]),
        (Selector(role="button", showing=False), ["Build", "Hidden"]),
        (Selector(name="Build"), ["Build", "Build"]),
        (Selector(text="ame"), ["Name"]),
        (Selector(value="1"), ["Verbose"]),
        (Selector(role="AXTextField", value="a\nb"), ["Name"]),
        (Selector(role="no such role"), []),
    ],
)
def test_a_selector_means(app: Application, window: Element, selector: Selector, names: list[str]) -> None:
    assert [found.name for found in matching(app, selector)] == names


def test_a_path_names_the_ancestors(app: Application, window: Element) -> None:
    assert path(window.children[0].children[0]) == ["editor", "Untitled"]


def test_a_ref_stays_with_its_element_and_its_number_is_never_used_again(app: Application) -> None:
    names, one, two = Refs(), element(app, "push-button", "One"), element(app, "push-button", "Two")
    assert (names.name(one), names.name(two), names.name(one)) == ("e1", "e2", "e1")
    one.number = ROLES.index("entry")
    assert names.name(one) == "e3"
    with pytest.raises(StaleRefError, match="e1 names no element any more: dump again"):
        names.find("e1")
    assert names.find(2).key == two.key


def test_a_ref_ends_when_no_read_names_it_for_ten_minutes(app: Application) -> None:
    now = [0.0]
    names, one = Refs(lambda: now[0]), element(app, "push-button")
    names.name(one)
    now[0] = 599
    assert names.find("e1").key == one.key
    now[0] = 601
    with pytest.raises(StaleRefError):
        names.find("e1")
    assert names.name(one) == "e2"


def test_refs_that_are_named_once_more_live_on(app: Application) -> None:
    now = [0.0]
    names, one, two = Refs(lambda: now[0]), element(app, "push-button"), element(app, "push-button")
    named = [names.named(one), names.named(two)]
    now[0] = 500
    assert names.again(named)
    now[0] = 1000
    assert names.find("e1").key == one.key
    names.end(two.key)
    assert not names.again(named)


def test_the_oldest_refs_end_when_too_many_are_kept(app: Application, window: Element) -> None:
    names = Refs()
    for number in range(refs.KEPT + 5):
        names.name(Element((":1.5", f"/n/{number}")))
    assert len(names) == refs.KEPT
    with pytest.raises(StaleRefError):
        names.find("e5")
    assert names.find("e6").key == (":1.5", "/n/5")


def test_numbers_stay_used_when_every_ref_has_ended(app: Application, window: Element) -> None:
    names, one = Refs(), element(app, "push-button", "One")
    assert names.name(one) == "e1"
    names.end_all()
    assert len(names) == 0
    with pytest.raises(StaleRefError):
        names.find("e1")
    assert names.name(one) == "e2"


Send = Callable[..., None]


@pytest.fixture
def send(app: Application) -> Send:
    def send(
        member: str, path: str, detail: str = "", on: int = 0, value: Any = None, kind: str = "Event.Object"
    ) -> None:
        fields = {m.PATH: path, m.INTERFACE: f"org.a11y.atspi.{kind}", m.MEMBER: member, m.SENDER: app.owner}
        values = [detail, on, 0, value or Variant("i", 0)]
        apply(app, m.decode_message(m.encode_message(m.SIGNAL, 1, fields, "siiv", values)))

    return send


def test_events_keep_the_mirror_current(app: Application, window: Element, send: Send) -> None:
    build = window.children[0].children[0]
    send("StateChanged", build.key[1], "focused", 0)
    send("PropertyChange", build.key[1], "accessible-name", value=Variant("s", "Rebuild"))
    assert (build.has(STATE["focused"]), build.name) == (False, "Rebuild")
    send("StateChanged", build.key[1], "defunct", 1)
    assert build.key not in app.elements
    assert build not in window.children[0].children


def test_events_tell_what_is_to_be_read_again(app: Application, window: Element, send: Send) -> None:
    box, entry = window.children[0], window.children[0].children[1]
    send("ChildrenChanged", box.key[1], "add")
    send("TextChanged", entry.key[1], "insert")
    send("BoundsChanged", window.key[1])
    send("StateChanged", "/unheard/of", "focused", 1)
    assert (app.stale_children, app.stale, app.doubtful) == ({box.key}, {entry.key}, {window.key})
    assert app.strangers == {(app.owner, "/unheard/of")}
    assert app.stale_frames


def test_events_that_are_no_events_change_nothing(app: Application, window: Element) -> None:
    for signature, values in (("", []), ("i", [1]), ("sssv", ["a", "b", "c", Variant("s", "")])):
        fields = {m.PATH: "/x", m.INTERFACE: "org.a11y.atspi.Cache", m.MEMBER: "RemoveAccessible"}
        apply(app, m.decode_message(m.encode_message(m.SIGNAL, 1, fields, signature, values)))
    assert len(list(app.root.walk())) == 8
