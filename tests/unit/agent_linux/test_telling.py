"""Trees told once more where nothing has changed, on mirrors that events change in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.differences import tree_difference
from reflexarc_agent.backends.linux.atspi.element import Element
from reflexarc_agent.backends.linux.atspi.events import apply
from reflexarc_agent.backends.linux.atspi.names import STATE
from reflexarc_agent.backends.linux.atspi.nodes import Budget, tree
from reflexarc_agent.backends.linux.atspi.refs import KEPT, Refs
from reflexarc_agent.backends.linux.atspi.roles import ROLES
from reflexarc_agent.backends.linux.atspi.telling import Telling
from reflexarc_agent.backends.linux.dbus import message as m
from reflexarc_agent.backends.linux.dbus.bus import Bus
from reflexarc_agent.backends.linux.dbus.encoding import Variant

SIZE = 12


def mirror() -> Application:
    """An application of which element number n is below element number (n - 1) // 2."""

    async def make() -> Application:
        return Application(":1.5", Bus(), "editor", 42)

    app = asyncio.run(make())
    made = [app.root]
    app.elements[app.root.key] = app.root
    for number in range(1, SIZE):
        element = Element((app.owner, f"/e/{number}"))
        element.number, element.name = ROLES.index("push-button"), f"Button {number}"
        element.states = STATE["showing"] | STATE["enabled"]
        element.parent = made[(number - 1) // 2]
        element.parent.children.append(element)
        app.elements[element.key] = element
        made.append(element)
    return app


def send(app: Application, member: str, number: int, detail: str, on: int, value: str = "") -> None:
    path = f"/e/{number}"
    fields = {m.PATH: path, m.INTERFACE: "org.a11y.atspi.Event.Object", m.MEMBER: member, m.SENDER: app.owner}
    values = [detail, on, 0, Variant("s", value)]
    apply(app, m.decode_message(m.encode_message(m.SIGNAL, 1, fields, "siiv", values)))


def told(telling: Telling, app: Application) -> dict[str, Any]:
    whole = telling.whole(app, app.root, Budget())
    assert whole is not None
    return whole


def plain(node: dict[str, Any]) -> dict[str, Any]:
    """A node in the types that are told where nothing is shared."""
    fields: dict[str, Any] = {**node, "actions": list(node["actions"])}
    return {**fields, "children": [plain(child) for child in node["children"]]}


def find(node: dict[str, Any], title: str) -> dict[str, Any]:
    """The node of a title."""
    stack = [node]
    while stack:
        seen = stack.pop()
        if seen.get("title") == title:
            return seen
        stack.extend(seen["children"])
    raise LookupError(title)


def renamed(app: Application, number: int, name: str) -> None:
    send(app, "PropertyChange", number, "accessible-name", 0, name)


def focused(app: Application, number: int, name: str) -> None:
    send(app, "StateChanged", number, "focused", 1)


def disabled(app: Application, number: int, name: str) -> None:
    send(app, "StateChanged", number, "enabled", 0)


def gone(app: Application, number: int, name: str) -> None:
    send(app, "StateChanged", number, "defunct", 1)


CHANGES: list[Callable[[Application, int, str], None]] = [renamed, focused, disabled, gone]
changes = st.tuples(st.sampled_from(CHANGES), st.integers(1, SIZE - 1), st.sampled_from(["", "One", "Zwei"]))


@given(st.lists(st.one_of(st.none(), st.booleans(), changes), max_size=30))
def test_after_any_changes_the_tree_is_what_is_told_anew_and_earlier_ones_stay(steps: list[Any]) -> None:
    app = mirror()
    connections = [(Telling(refs), refs) for refs in (Refs(), Refs())]
    earlier: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for step in [*steps, True, False]:
        if isinstance(step, bool):
            telling, refs = connections[step]
            now = told(telling, app)
            assert plain(now) == tree(app.root, refs.name, Budget())
            earlier.append((now, plain(now)))
        elif step:
            change, number, name = step
            change(app, number, name)
    for then, copied in earlier:
        assert plain(then) == copied


def test_only_the_way_to_what_has_changed_is_told_anew() -> None:
    app, telling = mirror(), Telling(Refs())
    before = told(telling, app)
    assert told(telling, app) is before
    renamed(app, 3, "Renamed")
    after = told(telling, app)
    assert find(after, "Button 2") is find(before, "Button 2")
    assert find(after, "Button 4") is find(before, "Button 4")
    assert find(after, "Button 1") is not find(before, "Button 1")
    assert (find(after, "Renamed")["ref"], find(before, "Button 3")["title"]) == (
        find(before, "Button 3")["ref"],
        "Button 3",
    )
    difference, removed = tree_difference(before, after)
    assert (removed, find(difference, "Renamed")["changed"]) == ([], True)
    assert "changed" not in find(after, "Renamed")


def test_a_told_tree_refuses_to_be_changed() -> None:
    app = mirror()
    app.elements[app.owner, "/e/1"].actions = ("click",)
    top = told(Telling(Refs()), app)
    with pytest.raises(TypeError, match="change a copy"):
        top["title"] = "another"
    with pytest.raises(TypeError, match="change a copy"):
        top.update(title="another")
    with pytest.raises(TypeError, match="change a copy"):
        top |= {"title": "another"}
    assert (type(top["children"]), find(top, "Button 1")["actions"]) == (tuple, ("AXPress",))
    assert dict(top, title="another")["title"] == "another"


def test_a_reference_that_has_ended_is_not_told_once_more() -> None:
    app, refs = mirror(), Refs()
    telling = Telling(refs)
    before = told(telling, app)
    for number in range(KEPT):
        refs.name(Element((":1.9", f"/n/{number}")))
    after = told(telling, app)
    assert refs.find(find(after, "Button 5")["ref"]).name == "Button 5"
    assert find(after, "Button 5")["ref"] != find(before, "Button 5")["ref"]


@pytest.mark.parametrize("budget", [Budget(nodes=SIZE - 1), Budget(depth=2), Budget(bytes=SIZE * 220)])
def test_a_tree_that_the_budget_has_no_room_for_is_not_told_whole(budget: Budget) -> None:
    app = mirror()
    assert Telling(Refs()).whole(app, app.root, budget) is None
    assert budget.capped is None


def test_a_list_that_was_not_read_whole_caps_the_tree_each_time() -> None:
    app, telling = mirror(), Telling(Refs())
    app.elements[app.owner, "/e/5"].capped = True
    for _ in range(2):
        budget = Budget()
        assert telling.whole(app, app.root, budget)
        assert (budget.capped, budget.count) == ("children", SIZE)
