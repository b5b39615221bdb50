"""What events of an application say about its mirror, and to who listens.

Source: AT-SPI2, `xml/Event.xml` and `xml/Cache.xml`.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import EMBEDDED, is_key
from reflexarc_agent.backends.linux.atspi.cache import NAME_CHARACTERS
from reflexarc_agent.backends.linux.atspi.element import Key
from reflexarc_agent.backends.linux.atspi.names import PREFIX, STATE
from reflexarc_agent.backends.linux.dbus.errors import FormatError
from reflexarc_agent.backends.linux.dbus.message import INTERFACE, MEMBER, PATH, Message

OBJECT, WINDOW, CACHE = PREFIX + "Event.Object", PREFIX + "Event.Window", PREFIX + "Cache"
INTERFACES = (OBJECT, WINDOW, CACHE)
STRANGERS = 20
"""Objects that aren't in the mirror and sent events: Chromium tells of a new page in no other way."""

SCROLLED = ("scroll-pane", "viewport")
"""What comes into sight in these, and what goes out of it, is told by no event: the whole is read anew."""

APPEARANCE = STATE["showing"] | STATE["visible"]

KINDS = {
    "BoundsChanged": "place",
    "VisibleDataChanged": "place",
    "ChildrenChanged": "children",
    "ModelChanged": "children",
    "TextChanged": "text",
    "SelectionChanged": "selection",
    "ActiveDescendantChanged": "selection",
    "StateChanged": "state",
    "PropertyChange": "property",
}
"""What a change is called when the host is told of it, by the event's member."""

Listener = Callable[[str, Optional[Key]], None]
"""Gets the kind of a change, and the element where it is one's."""


def kind(message: Message) -> str:
    """What the change that an event tells of is called."""
    if message.text(INTERFACE) == OBJECT:
        return KINDS.get(message.text(MEMBER), "")
    return "window" if message.text(INTERFACE) == WINDOW else "children"


def apply(app: Application, message: Message) -> None:
    """Note in the mirror what an event says, or what it makes worth reading again."""
    try:
        values = message.values()
    except FormatError:
        return
    app.events += 1
    interface = message.text(INTERFACE)
    if interface == OBJECT and len(values) >= 4:
        _object(app, message.text(MEMBER), (app.owner, message.text(PATH)), values)
    elif interface == WINDOW:
        app.window_events += 1
        app.stale_children.add(app.root.key)
        app.stale_frames = True
    elif interface == CACHE and values:
        _cache(app, message.text(MEMBER), values[0])


def _object(app: Application, member: str, key: Key, values: tuple[Any, ...]) -> None:
    if key not in app.elements and len(app.strangers) < STRANGERS:
        app.strangers.add(key)
    if member in ("BoundsChanged", "VisibleDataChanged"):
        element = app.elements.get(key)
        if app.gtk3 and element and (member == "BoundsChanged" or not element.children):
            app.shift(key, alone=True)
        else:
            _shifted(app, key, app.gtk3)
        app.doubtful.add(key)
        if element and not app.shows(element):
            # GTK 3 says "showing" only of what has got its place, and of that it sends no event of its own.
            app.stale.add(key)
        elif element and app.gtk3 and element.role in SCROLLED:
            app.read_at = None
    elif member == "ChildrenChanged":
        app.stale_children.add(key)
        _shifted(app, key)
    elif member == "StateChanged":
        _state(app, key, str(values[0]), bool(values[1]))
    elif member == "PropertyChange":
        _property(app, key, str(values[0]), values[3])
    elif member in ("TextChanged", "SelectionChanged", "ModelChanged", "ActiveDescendantChanged"):
        _held(app, member, key, values[3])


def _held(app: Application, member: str, key: Key, value: Any) -> None:
    app.stale.add(key)
    if member == "TextChanged" and EMBEDDED in str(value):
        # Firefox tells of a child that is gone in no other way.
        app.stale_children.add(key)
        _shifted(app, key)


def _shifted(app: Application, key: Key, there: bool = True) -> None:
    """Note that something may have moved `there`; anything may have where it isn't known where that is."""
    if there and (key in app.elements or key in app.strangers):
        app.shift(key)
    else:
        app.stale_frames = True


def _state(app: Application, key: Key, name: str, on: bool) -> None:
    element, bit = app.elements.get(key), STATE.get(name, 0)
    if element is None:
        return
    if name == "defunct" and on:
        app.drop(element)
        return
    if name == "focused" and on:
        # Browsers don't say who has lost it.
        for other in app.elements.values():
            if other.states & bit:
                other.states &= ~bit
                other.retell()
    element.retell()
    element.states = element.states | bit if on else element.states & ~bit
    if bit & APPEARANCE:
        element.placed = False
        app.stale.add(key)
        app.shift(key)


def _property(app: Application, key: Key, name: str, value: Any) -> None:
    element = app.elements.get(key)
    if element and name == "accessible-name" and isinstance(value, str):
        element.name = value[:NAME_CHARACTERS]
        element.retell()
    elif element:
        app.stale.add(key)
        if element.role == "scroll-bar":
            app.read_at = None


def _cache(app: Application, member: str, value: Any) -> None:
    if member == "RemoveAccessible" and is_key(value):
        element = app.elements.get(value)
        if element and element is not app.root:
            app.drop(element)
    elif member == "AddAccessible" and isinstance(value, tuple) and len(value) > 2 and is_key(value[2]):
        app.stale_children.add(value[2])
