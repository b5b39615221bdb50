"""Finding elements by what they are: role, name, value, text."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Iterator, Optional

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.element import Element
from reflexarc_agent.backends.linux.atspi.nodes import value
from reflexarc_agent.backends.linux.atspi.roles import ROLES, role_named
from reflexarc_agent.backends.linux.dbus.encoding import encode

SHOWING_BIT = 25
MATCH_ALL, MATCH_ANY = 1, 2
CANONICAL = 1
RULE = "(aiia{ss}iaiiasib)uib"


@dataclass(frozen=True)
class Selector:
    """What an element must be: its role, its whole name or value, a text within one of them, whether it shows."""

    role: Optional[str] = None
    name: Optional[str] = None
    value: Optional[str] = None
    text: Optional[str] = None
    showing: bool = True

    def __str__(self) -> str:
        """In words: `push button "Build" with "uil"`."""
        words = [self.role or "element", *([f'"{self.name}"'] if self.name is not None else [])]
        words += [f'of value "{self.value}"'] if self.value is not None else []
        words += [f'with "{self.text}"'] if self.text is not None else []
        return " ".join(words)

    def roles(self) -> frozenset[str]:
        """The AT-SPI roles that are meant, none where every role is."""
        return role_named(self.role) if self.role else frozenset()

    def matches(self, element: Element) -> bool:
        """Whether an element is meant, apart from whether it shows and what its role is."""
        if self.name is not None and element.name != self.name:
            return False
        held = value(element)
        said = "" if held is None else held if isinstance(held, str) else f"{held:g}"
        if self.value is not None and said != self.value:
            return False
        return self.text is None or self.text in element.name or self.text in said


def matching(app: Application, selector: Selector) -> Iterator[Element]:
    """The elements of a mirror that are meant, in the order of the tree."""
    roles = selector.roles()
    for element in app.root.walk():
        if selector.role and element.role not in roles:
            continue
        if selector.showing and not app.shows(element):
            continue
        if selector.matches(element):
            yield element


def path(element: Element) -> list[str]:
    """The names of an element's ancestors, outermost first."""
    return [above.name for above in element.ancestors() if above.name][::-1]


def match_rule(selector: Selector, limit: int) -> bytes:
    """The body of Collection.GetMatches for a selector's role and showing; names aren't part of such a rule.

    Source: AT-SPI2, `xml/Collection.xml`, `AtspiCollectionMatchType`.
    """
    states = [1 << SHOWING_BIT, 0] if selector.showing else [0, 0]
    words = [0] * 8
    for role in selector.roles():
        number = ROLES.index(role)
        words[number // 32] |= 1 << number % 32
    roles = list(struct.unpack("<8i", struct.pack("<8I", *words))) if selector.role else []
    rule: tuple[object, ...] = (states, MATCH_ALL, {}, MATCH_ALL, roles, MATCH_ANY, [], MATCH_ALL, False)
    return encode(RULE, [rule, CANONICAL, limit, True])
