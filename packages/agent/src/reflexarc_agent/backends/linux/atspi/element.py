"""Elements of an accessibility tree, as they were last read."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Tuple, Union

from reflexarc_agent.backends.linux.atspi.names import STATE
from reflexarc_agent.backends.linux.atspi.roles import role_name

Key = Tuple[str, str]
"""The application's unique name on the bus, and the path of the object."""

ALL_INTERFACES = -1
"""Where the interfaces weren't read: what isn't there answers with an error."""

ENABLED = STATE["enabled"] | STATE["sensitive"]
SHOWING, VISIBLE, FOCUSED = STATE["showing"], STATE["visible"], STATE["focused"]


class Frame(NamedTuple):
    """A rectangle of screen points."""

    x: int
    y: int
    w: int
    h: int

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.w and self.y <= y < self.y + self.h


class Element:
    """One element; `value` is read of those that show, `frame` and `actions` of those that are `placed`.

    `told` is what was last told of it and all below it, until `retell`.
    """

    __slots__ = (
        *("_number", "actions", "capped", "child_count", "children", "frame", "interfaces", "key", "name"),
        *("parent", "placed", "role", "states", "told", "value"),
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.number = -1
        self.name = ""
        self.states = 0
        self.interfaces = ALL_INTERFACES
        self.child_count = 0
        self.parent: Optional[Element] = None
        self.children: list[Element] = []
        self.capped = False
        self.placed = False
        self.frame: Optional[Frame] = None
        self.actions: tuple[str, ...] = ()
        self.value: Optional[Union[str, float]] = None
        self.told: Optional[object] = None

    @property
    def number(self) -> int:
        """The number of its role; `role` is the name."""
        return self._number

    @number.setter
    def number(self, number: int) -> None:
        self._number = number
        self.role = role_name(number)

    def has(self, states: int) -> bool:
        """Whether it has all of these states."""
        return self.states & states == states

    @property
    def enabled(self) -> bool:
        return bool(self.states & ENABLED)

    def retell(self) -> None:
        """Have it and what it is in told anew, for it has changed."""
        seen: Optional[Element] = self
        # What is below something told is told.
        while seen is not None and seen.told is not None:
            seen.told = None
            seen = seen.parent

    def walk(self) -> Iterator[Element]:
        """This element and those below it, in the order of the tree."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    def ancestors(self) -> Iterator[Element]:
        """Those above it, nearest first."""
        seen = self.parent
        for _ in range(64):
            if seen is None:
                return
            yield seen
            seen = seen.parent
