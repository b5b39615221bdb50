"""References: short names of live elements, good for one connection."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Callable, Iterable, Optional

from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.errors import StaleRefError

KEPT = 50_000
SECONDS = 600.0


@dataclass
class Named:
    """What a reference names, and how it was when it was last read."""

    ref: str
    key: Key
    number: int
    name: str
    read_at: float


class Refs:
    """The references of one connection; a number is never used twice, and `ended` counts those that have ended.

    A reference ends with its element, when no read has named it for 10 minutes, or when 50,000 newer ones are kept.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = 0
        self.ended = 0
        self._by_key: OrderedDict[Key, Named] = OrderedDict()
        self._by_ref: dict[str, Named] = {}

    def __len__(self) -> int:
        return len(self._by_ref)

    def name(self, element: Element) -> str:
        """The reference of an element; the same as before while the object and its role are the same."""
        return self.named(element).ref

    def named(self, element: Element) -> Named:
        """The reference of an element, with what is kept of it."""
        now = self._clock()
        named = self._by_key.get(element.key)
        if named is None or named.number != element.number or now - named.read_at > SECONDS:
            named = self._new(element)
        named.name, named.read_at = element.name, now
        self._by_key.move_to_end(element.key)
        return named

    def again(self, listed: Iterable[Named]) -> bool:
        """Name once more what was named before; False where one of these has ended."""
        now = self._clock()
        for named in listed:
            if self._by_ref.get(named.ref) is not named or now - named.read_at > SECONDS:
                return False
            named.read_at = now
            self._by_key.move_to_end(named.key)
        return True

    def find(self, ref: str | int) -> Named:
        """What a reference names; raises StaleRefError where it has ended, or never was."""
        named = self._by_ref.get(f"e{ref}" if isinstance(ref, int) else ref)
        if named is None or self._clock() - named.read_at > SECONDS:
            raise StaleRefError(f"{str(ref)[:40]} names no element any more: dump again")
        return named

    def known(self, key: Key) -> Optional[str]:
        """The reference that an element has, None where no read has named it."""
        named = self._by_key.get(key)
        return named.ref if named else None

    def end(self, key: Key) -> None:
        """End the reference of an element that is gone."""
        named = self._by_key.pop(key, None)
        if named:
            del self._by_ref[named.ref]
            self.ended += 1

    def end_all(self) -> None:
        """End every reference; their numbers stay used."""
        self._by_key.clear()
        self._by_ref.clear()
        self.ended += 1

    def _new(self, element: Element) -> Named:
        self.end(element.key)
        while len(self._by_key) >= KEPT:
            self.end(next(iter(self._by_key)))
        self._last += 1
        named = Named(f"e{self._last}", element.key, element.number, element.name, self._clock())
        self._by_key[element.key] = named
        self._by_ref[named.ref] = named
        return named
