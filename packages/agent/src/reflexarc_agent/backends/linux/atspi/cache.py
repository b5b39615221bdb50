"""What an application's cache says, in one answer.

Source: AT-SPI2, `xml/Cache.xml`.
"""

from __future__ import annotations

from typing import Any, Iterable

from reflexarc_agent.backends.linux.atspi.asking import is_key
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.names import interface_bits, state_bits

NAME_CHARACTERS = 4000
_SHAPE = (tuple, tuple, tuple, int, int, list, str, int, str, tuple)


def is_item(item: Any) -> bool:
    """Whether this is an item of the present format (Qt 5 has an older one, and names nothing in it)."""
    return (
        isinstance(item, tuple)
        and len(item) == len(_SHAPE)
        and all(map(isinstance, item, _SHAPE))
        and is_key(item[0])
        and is_key(item[2]) | (item[2][1:] != ("",))
    )


def cached_elements(items: Iterable[Any], bound: int) -> dict[Key, Element]:
    """The elements of a cache, each with the children that the cache names, in their order."""
    elements: dict[Key, Element] = {}
    places: list[tuple[int, Key, Key]] = []
    for item in items:
        if len(elements) >= bound or not is_item(item):
            break
        element = Element(item[0])
        element.child_count = item[4]
        element.interfaces = interface_bits(tuple(item[5]))
        element.name = item[6][:NAME_CHARACTERS]
        element.number = item[7]
        element.states = state_bits(item[9])
        elements[element.key] = element
        places.append((item[3], item[2], element.key))
    places.sort(key=lambda place: place[0])
    for _, parent, key in places:
        above = elements.get(parent)
        if above and parent != key:
            above.children.append(elements[key])
    return elements
