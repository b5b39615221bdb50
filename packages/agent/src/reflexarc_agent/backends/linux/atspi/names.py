"""Interfaces, paths and states of AT-SPI2, and the calls that reading is made of.

Source: AT-SPI2, `xml/*.xml`; `AtspiStateType`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Iterable

from reflexarc_agent.backends.linux.dbus.encoding import encode

PREFIX = "org.a11y.atspi."
ACCESSIBLE, COMPONENT, ACTION = PREFIX + "Accessible", PREFIX + "Component", PREFIX + "Action"
TEXT, EDITABLE_TEXT, VALUE = PREFIX + "Text", PREFIX + "EditableText", PREFIX + "Value"
TABLE, SELECTION, COLLECTION = PREFIX + "Table", PREFIX + "Selection", PREFIX + "Collection"
APPLICATION, CACHE = PREFIX + "Application", PREFIX + "Cache"
PROPERTIES = "org.freedesktop.DBus.Properties"

REGISTRY, REGISTRY_PATH = "org.a11y.atspi.Registry", "/org/a11y/atspi/registry"
ROOT_PATH, CACHE_PATH = "/org/a11y/atspi/accessible/root", "/org/a11y/atspi/cache"
NULL_PATH = "/org/a11y/atspi/null"

INTERFACES = {
    name: 1 << bit
    for bit, name in enumerate(
        (COMPONENT, ACTION, TEXT, EDITABLE_TEXT, VALUE, TABLE, SELECTION, COLLECTION, APPLICATION)
    )
}
HAS_COMPONENT, HAS_ACTION, HAS_TEXT, HAS_EDITABLE_TEXT, HAS_VALUE, HAS_TABLE = (1 << bit for bit in range(6))

STATES = [
    "invalid",
    "active",
    "armed",
    "busy",
    "checked",
    "collapsed",
    "defunct",
    "editable",
    "enabled",
    "expandable",
    "expanded",
    "focusable",
    "focused",
    "has-tooltip",
    "horizontal",
    "iconified",
    "modal",
    "multi-line",
    "multiselectable",
    "opaque",
    "pressed",
    "resizable",
    "selectable",
    "selected",
    "sensitive",
    "showing",
    "single-line",
    "stale",
    "transient",
    "vertical",
    "visible",
    "manages-descendants",
    "indeterminate",
    "required",
    "truncated",
    "animated",
    "invalid-entry",
    "supports-autocompletion",
    "selectable-text",
    "is-default",
    "visited",
    "checkable",
    "has-popup",
    "read-only",
]
"""The name of each state, by the number of its bit."""

STATE = {name: 1 << bit for bit, name in enumerate(STATES)}


def property_body(interface: str, name: str) -> bytes:
    """The body of a call to Properties.Get."""
    return encode("ss", [interface, name])


NAME_BODY = property_body(ACCESSIBLE, "Name")
COUNT_BODY = property_body(ACCESSIBLE, "ChildCount")
LENGTH_BODY = property_body(TEXT, "CharacterCount")
VALUE_BODY = property_body(VALUE, "CurrentValue")
SCREEN_BODY, WINDOW_BODY = encode("u", [0]), encode("u", [1])

TEXT_CHARACTERS = 4000
TEXT_BODY = encode("ii", [0, TEXT_CHARACTERS])


@lru_cache(maxsize=1024)
def interface_bits(names: tuple[str, ...]) -> int:
    """The set of interfaces that are of use here."""
    return sum(INTERFACES.get(name, 0) for name in set(names))


def state_bits(words: Iterable[int]) -> int:
    """States as one number, of the two words that AT-SPI sends."""
    bits = 0
    for place, word in enumerate(list(words)[:2]):
        bits |= int(word) << 32 * place
    return bits
