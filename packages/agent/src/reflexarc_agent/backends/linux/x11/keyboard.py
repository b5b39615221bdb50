"""Keys and text through XTEST; characters that no key has are put on spare keys first.

A key is given another character only when the clients have had time to read the last one typed with it.
Source: X protocol, "Keyboards"; XTEST, "XTestFakeKeyEvent".
"""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from reflexarc_agent.backends.linux.errors import NotTypeableError
from reflexarc_agent.backends.linux.keysyms import KEYS, chord_keys, keysym
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.libraries import library, xlib

SETTLE = 0.4
"""Seconds after which a client has read a key that was typed."""

SPREAD = 0.1
"""Seconds in which a client learns what is on a key now; Chromium takes its time, and types what was there before."""

MEDIA = 0x1008FF
"""The upper bits of the keysyms of multimedia keys.

They are borrowed only where no key is unused: a client that hasn't read the change yet goes Back, or reloads.
"""

LOCK = 2
CORE_KEYBOARD = 0x100
CHARACTERS = 100_000
BATCH = 200
"""Characters between two looks whether the server has taken them."""


class Keyboard:
    """Presses keys on one display."""

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._clock = clock
        self._test = library("libXtst.so.6")
        self._pool: OrderedDict[int, tuple[int, float]] = OrderedDict()
        self._down: list[int] = []
        self._learn(self._mapping())

    def close(self) -> None:
        """Let go of what is held down, and give the borrowed keys back."""
        self.release()
        if self._pool:
            self._rows.update(self._lent)
            self._pool.clear()
            self._write_mapping()

    # -- keys

    def key(self, chord: str) -> None:
        """Press keys together, as "ctrl+alt+t"; raises NotTypeableError where one isn't a key."""
        names = chord_keys(chord)
        with self._display.lock, self._first_layout():
            codes = [self._named(name) for name in names]
            for code in codes:
                self._strike(code, True)
            for code in reversed(codes):
                self._strike(code, False)
            self._display.check("pressing keys")

    def key_down(self, name: str) -> None:
        """Hold a key down, until `key_up` or `release`."""
        with self._display.lock:
            self._refresh_mapping()
            code = self._named(name)
            self._down.append(code)
            self._strike(code, True)
            self._display.check("pressing a key")

    def key_up(self, name: str) -> None:
        """Let a key go."""
        with self._display.lock:
            code = self._named(name)
            if code in self._down:
                self._down.remove(code)
            self._strike(code, False)
            self._display.check("releasing a key")

    def release(self) -> None:
        """Let everything go that is still held down."""
        with self._display.lock:
            for code in self._down:
                self._strike(code, False)
            self._down.clear()
            self._display.check("releasing keys")

    def _strike(self, code: int, down: bool) -> None:
        self._test.XTestFakeKeyEvent(self._display.handle, code, down, 0)

    def _named(self, name: str) -> int:
        """The key code of a key's name, or of a character."""
        known = KEYS.get(name.lower())
        if known:
            sym = int(xlib().XStringToKeysym(known.encode()))
        elif len(name) == 1:
            sym = keysym(name.lower() if name.isascii() else name)
        else:
            raise NotTypeableError(f"there is no key {name[:40]!r}")
        code = self._plain.get(sym)
        if code is None:
            code = self._map([sym])[sym]
        return code

    # -- text

    def type(self, text: str) -> None:
        """Type a text; raises NotTypeableError, before anything is typed, where a character can't be."""
        if len(text) > CHARACTERS:
            raise NotTypeableError(f"{len(text)} characters are too many at once; {CHARACTERS} are allowed")
        text = text.replace("\r\n", "\n")
        syms = [keysym(character) for character in text]
        with self._display.lock, self._first_layout():
            locked = bool(self._display.pointer()[2] & LOCK)
            if locked:
                self.key("capslock")
            while syms:
                typed = self._type_some(syms)
                if not typed:
                    raise NotTypeableError(f"{self._display.name} has no unused key to type that with")
                syms = syms[typed:]
            if locked:
                self.key("capslock")

    def lend(self, text: str) -> int:
        """Put characters that no key has on keys; returns how many there are up to the first that got one only now.

        That is 0 where all have keys already. By this first one can be seen whether a client has learned the keys.
        """
        syms = [keysym(character) for character in text.replace("\r\n", "\n")]
        with self._display.lock, self._first_layout():
            wanted = list(dict.fromkeys(sym for sym in syms if sym not in self._typed))[: len(self._spare)]
            missing = [sym for sym in wanted if sym not in self._pool]
            if missing:
                self._map(wanted)
        return syms.index(missing[0]) + 1 if missing else 0

    def _type_some(self, syms: list[int]) -> int:
        """Type as many as there are keys for; returns how many those were."""
        wanted: dict[int, None] = {}
        count = 0
        for sym in syms[:BATCH]:
            if sym not in self._typed and sym not in wanted and len(wanted) == len(self._spare):
                break
            if sym not in self._typed:
                wanted[sym] = None
            count += 1
        mapped = self._map(list(wanted)) if wanted else {}
        now = self._clock()
        for sym in syms[:count]:
            code, shift = (mapped[sym], False) if sym in mapped else self._typed[sym]
            if shift:
                self._strike(self._shift, True)
            self._strike(code, True)
            self._strike(code, False)
            if shift:
                self._strike(self._shift, False)
            if sym in mapped:
                self._pool[sym] = (code, now)
        self._display.check("typing")
        return count

    # -- the mapping

    @contextmanager
    def _first_layout(self) -> Iterator[None]:
        """Have the first of the user's layouts in force, as it is now; the one that was there returns."""
        self._refresh_mapping()
        there = self.layout()
        if there:
            self.lock_layout(0)
        try:
            yield
        finally:
            if there:
                self.lock_layout(there)

    def layout(self) -> int:
        """Which of the user's layouts is in force, from 0 to 3.

        Source: X Keyboard Extension, "Keyboard State": the group is in bits 13 and 14 of the state.
        """
        return self._display.pointer()[2] >> 13 & 3

    def lock_layout(self, number: int) -> None:
        """Put one of the user's layouts in force."""
        with self._display.lock:
            xlib().XkbLockGroup(self._display.handle, CORE_KEYBOARD, number)
            self._display.check("changing the layout")

    def _refresh_mapping(self) -> None:
        """Read the keys again where another client has changed them, such as to another layout."""
        rows = self._mapping()
        lent = {code: sym for sym, (code, _) in self._pool.items()}
        if any(
            row[0] != lent[code] if code in lent else code not in self._lent and row != self._rows.get(code)
            for code, row in rows.items()
        ):
            self._pool.clear()
            # A character of ours that is still there doesn't make a key a used one.
            ours = {code: self._lent[code] for code, sym in lent.items() if rows.get(code, [0])[0] == sym}
            self._learn({**rows, **ours})

    def _mapping(self) -> dict[int, list[int]]:
        """The symbols of each key, by its key code."""
        low, high, width = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        x = xlib()
        with self._display.lock:
            self._display.alive()
            x.XDisplayKeycodes(self._display.handle, ctypes.byref(low), ctypes.byref(high))
            count = high.value - low.value + 1
            table = x.XGetKeyboardMapping(self._display.handle, low.value, count, ctypes.byref(width))
            if not table:
                self._display.check("reading the keyboard")
                raise NotTypeableError(f"{self._display.name} tells of no keys")
            rows = [list(table[at * width.value : (at + 1) * width.value]) for at in range(count)]
            x.XFree(table)
        return dict(enumerate(rows, low.value))

    def _learn(self, rows: dict[int, list[int]]) -> None:
        """Learn which keys there are, and which are unused."""
        self._width = max(2, *map(len, rows.values()))
        self._rows = rows
        self._plain: dict[int, int] = {}
        self._typed: dict[int, tuple[int, bool]] = {}
        unused = {code: list(row) for code, row in self._rows.items() if not any(row)}
        media = {code: list(row) for code, row in self._rows.items() if row[0] >> 8 == MEDIA}
        self._lent = unused or media
        self._spare = list(self._lent)
        for code, row in self._rows.items():
            if code in self._lent:
                continue
            for level, sym in enumerate(row[:2]):
                self._plain.setdefault(sym, code)
                if sym and (level == 0 or row[0] != sym):
                    self._typed.setdefault(sym, (code, level == 1))
        self._shift = self._plain.get(0xFFE1, 0)

    def _map(self, syms: list[int]) -> dict[int, int]:
        """Put characters on unused keys, all by one request; returns the key of each."""
        missing = [sym for sym in syms if sym not in self._pool]
        for sym in syms:
            if sym in self._pool:
                self._pool.move_to_end(sym)
        free = [code for code in self._spare if code not in {used for used, _ in self._pool.values()}]
        newest: Optional[float] = None
        while len(free) < len(missing):
            if not self._pool:
                raise NotTypeableError(f"{self._display.name} has no unused key to type that with")
            _, (code, used_at) = self._pool.popitem(last=False)
            newest = used_at if newest is None else max(newest, used_at)
            free.append(code)
        if newest is not None:
            time.sleep(max(0.0, newest + SETTLE - self._clock()))
        for sym, code in zip(missing, free):
            self._rows[code] = [sym, sym]
            self._pool[sym] = (code, self._clock())
        if missing:
            self._write_mapping()
            # The server fills the rows of all keys up as it likes: that is no change by another client.
            self._rows = self._mapping()
            time.sleep(SPREAD)
        return {sym: self._pool[sym][0] for sym in syms}

    def _write_mapping(self) -> None:
        first, last = min(self._spare), max(self._spare)
        width = self._width
        flat = [sym for code in range(first, last + 1) for sym in (self._rows[code] + [0] * width)[:width]]
        table = (ctypes.c_ulong * len(flat))(*flat)
        xlib().XChangeKeyboardMapping(self._display.handle, first, width, table, last - first + 1)
        self._display.check("putting characters on keys")
