"""Lists too long to read, such as the million rows of a spreadsheet: only the stretch in sight is read.

The elements at two opposite corners tell the first and the last row and column, or the first and last child.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from reflexarc_agent.backends.linux.atspi.asking import EXTENTS, Asking, is_key
from reflexarc_agent.backends.linux.atspi.element import Element, Frame, Key
from reflexarc_agent.backends.linux.atspi.names import ACCESSIBLE, COMPONENT, HAS_TABLE, SCREEN_BODY, TABLE
from reflexarc_agent.backends.linux.dbus.encoding import encode

AT_POINT = (COMPONENT, "GetAccessibleAtPoint")
INDEX = (ACCESSIBLE, "GetIndexInParent")
CHILD = (ACCESSIBLE, "GetChildAtIndex")
ROW, COLUMN, CELL = (TABLE, "GetRowAtIndex"), (TABLE, "GetColumnAtIndex"), (TABLE, "GetAccessibleAt")
INSET = 2
"""Points from the edge: the edge itself is often a border."""


class Stretch:
    """Finds the children of one element that are in sight, and hands them to `tell`."""

    def __init__(self, asking: Asking, element: Element, tell: Callable[[Element, list[Key]], None]) -> None:
        self._asking = asking
        self._element = element
        self._tell = tell
        self._corners: dict[int, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._found: list[Key | None] = []
        self._left = 2

    def find(self) -> None:
        """Ask, beginning with the element's place."""
        self._asking.ask(self._element, EXTENTS, self._placed, "u", SCREEN_BODY)

    def _placed(self, element: Element, value: Any) -> None:
        if not (
            isinstance(value, tuple) and len(value) == 4 and value[2] > 2 * INSET and value[3] > 2 * INSET
        ):
            return
        frame = Frame(*value)
        first = (frame.x + INSET, frame.y + INSET)
        last = (frame.x + frame.w - INSET, frame.y + frame.h - INSET)
        for corner, point in enumerate((first, last)):
            body = encode("iiu", [*point, 0])
            self._asking.ask(element, AT_POINT, partial(self._met, corner), "iiu", body)

    def _met(self, corner: int, _: Element, key: Any) -> None:
        if is_key(key) and key != self._element.key:
            self._asking.ask(Element(key), INDEX, partial(self._indexed, corner))
        else:
            self._indexed(corner, self._element, None)

    def _indexed(self, corner: int, _: Element, index: Any) -> None:
        if isinstance(index, int) and index >= 0:
            self._corners[corner] = index
        self._left -= 1
        if self._left:
            return
        if 0 not in self._corners:
            self._corners = {0: 0, 1: 0}
        if self._element.interfaces & HAS_TABLE and 1 in self._corners:
            self._ask_rows()
        else:
            self._list_children()

    def _list_children(self) -> None:
        first = self._corners[0]
        last = min(max(self._corners.get(1, 0), first + 49), self._element.child_count - 1)
        indices = range(first, min(last + 1, first + self._asking.bounds.children))
        self._ask_each(CHILD, [encode("i", [index]) for index in indices], "i")

    def _ask_rows(self) -> None:
        self._left = 4
        for corner, index in self._corners.items():
            body = encode("i", [index])
            for which, method in enumerate((ROW, COLUMN)):
                place = (corner, which)
                self._asking.ask(self._element, method, partial(self._numbered, place), "i", body)

    def _numbered(self, place: tuple[int, int], _: Element, number: Any) -> None:
        if isinstance(number, int) and number >= 0:
            self._numbers[place] = number
        self._left -= 1
        if self._left:
            return
        if len(self._numbers) < 4:
            self._list_children()
            return
        (top, left), (bottom, right) = (
            (self._numbers[corner, 0], self._numbers[corner, 1]) for corner in (0, 1)
        )
        room = self._asking.bounds.children
        columns = range(left, min(right + 1, left + room))
        rows = range(top, min(bottom + 1, top + room // max(1, len(columns))))
        self._ask_each(CELL, [encode("ii", [row, column]) for row in rows for column in columns], "ii")

    def _ask_each(self, method: tuple[str, str], bodies: list[bytes], signature: str) -> None:
        self._found = [None] * len(bodies)
        self._left = len(bodies)
        for place, body in enumerate(bodies):
            self._asking.ask(self._element, method, partial(self._got, place), signature, body)

    def _got(self, place: int, _: Element, key: Any) -> None:
        if is_key(key):
            self._found[place] = key
        self._left -= 1
        if not self._left:
            self._tell(self._element, [key for key in self._found if key])
