"""Keys and text through a virtual keyboard with a keymap of our own.

The compositor hands a new keymap on to each client in the order of the keys typed before and after it.
Source: virtual-keyboard-unstable-v1; wayland.xml, "wl_keyboard.modifiers".
"""

from __future__ import annotations

import os
import time
from typing import Callable, List, Optional

from reflexarc_agent.backends.linux.errors import NotTypeableError
from reflexarc_agent.backends.linux.keysyms import chord_keys, keysym
from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.keymap import LOCK, SHIFT, Keymap, Stroke
from reflexarc_agent.backends.linux.wayland.seat import KEYBOARD, Seat, milliseconds

MANAGER = "zwp_virtual_keyboard_manager_v1"
WHAT = "a keyboard to type with"
XKB_V1 = 1
PRESSED, RELEASED = 1, 0
CHARACTERS = 100_000
BATCH = 200
"""Characters between two looks whether the compositor has taken them."""


class Keyboard:
    """Presses keys on one compositor's seat; raises WaylandError, or NotOfferedError where it lets nobody type."""

    def __init__(
        self, connection: Connection, seat: Seat, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._connection = connection
        self._seat = seat
        self._sleep = sleep
        self._keymap = Keymap()
        self._object: Optional[int] = None
        self._down: List[int] = []
        self._held = self._locked = 0

    def require(self) -> None:
        """Raise NotOfferedError where this compositor lets nobody type."""
        self._connection.only(MANAGER, 1, WHAT)
        self._seat.require(WHAT)

    # -- keys

    def key(self, chord: str) -> None:
        """Press keys together, as "ctrl+alt+t"; raises NotTypeableError where one isn't a key."""
        names = chord_keys(chord)
        with self._connection.lock:
            codes = self._codes(names)
            for code in codes:
                self._strike(code, PRESSED)
            for code in reversed(codes):
                self._strike(code, RELEASED)
            self._connection.roundtrip("pressing keys")

    def key_down(self, name: str) -> None:
        """Hold a key down, until `key_up` or `release`."""
        with self._connection.lock:
            (code,) = self._codes([name])
            self._down.append(code)
            self._strike(code, PRESSED)
            self._connection.roundtrip("pressing a key")

    def key_up(self, name: str) -> None:
        """Let a key go."""
        with self._connection.lock:
            (code,) = self._codes([name])
            if code in self._down:
                self._down.remove(code)
            self._strike(code, RELEASED)
            self._connection.roundtrip("releasing a key")

    def release(self) -> None:
        """Let everything go that is still held down."""
        with self._connection.lock:
            for code in self._down:
                self._strike(code, RELEASED)
            self._down.clear()
            self._connection.roundtrip("releasing keys")

    def _codes(self, names: List[str]) -> List[int]:
        """The keys of names; characters that no key has are put on spare ones first."""
        known = [self._keymap.key(name) for name in names]
        syms = [
            keysym(name.lower() if name.isascii() else name) for name, code in zip(names, known) if not code
        ]
        self._open()
        placed = iter(self._place(syms))
        return [code or next(placed).code for code in known]

    def _strike(self, code: int, state: int) -> None:
        modifier = self._keymap.modifier(code)
        self._send(code, state)
        if modifier == LOCK and state == PRESSED:
            self._locked ^= LOCK
        elif modifier and modifier != LOCK:
            self._held = self._held | modifier if state == PRESSED else self._held & ~modifier
        if modifier:
            self._modify(self._held, self._locked)

    # -- text

    def type(self, text: str) -> None:
        """Type a text; raises NotTypeableError, before anything is typed, where a character can't be."""
        if len(text) > CHARACTERS:
            raise NotTypeableError(f"{len(text)} characters are too many at once; {CHARACTERS} are allowed")
        syms = [keysym(character) for character in text.replace("\r\n", "\n")]
        with self._connection.lock:
            self._open()
            self._modify(self._held, 0)
            try:
                while syms:
                    count = self._keymap.fitting(syms, BATCH)
                    self._type(syms[:count])
                    syms = syms[count:]
            finally:
                self._modify(self._held, self._locked)

    def _type(self, syms: List[int]) -> None:
        for stroke in self._place(syms):
            if stroke.shift:
                self._send(self._keymap.shift, PRESSED)
                self._modify(self._held | SHIFT, 0)
            self._send(stroke.code, PRESSED)
            self._send(stroke.code, RELEASED)
            if stroke.shift:
                self._send(self._keymap.shift, RELEASED)
                self._modify(self._held, 0)
        self._keymap.typed(syms)
        self._connection.roundtrip("typing")

    # -- the keyboard

    def _place(self, syms: List[int]) -> List[Stroke]:
        placed, changed, pause = self._keymap.place(syms)
        if changed:
            self._sleep(pause)
            self._send_keymap()
        return [placed[sym] for sym in syms]

    def _open(self) -> None:
        """Create the keyboard, when it is first needed."""
        if self._object is not None:
            return
        self.require()
        manager, seat = self._connection.only(MANAGER, 1, WHAT), self._seat.object(WHAT)
        with self._seat.gaining(KEYBOARD):
            self._object = self._connection.request(manager, "create_virtual_keyboard", seat)
            self._send_keymap()
            self._connection.roundtrip("making a keyboard")

    def _send_keymap(self) -> None:
        assert self._object is not None
        data = self._keymap.text().encode() + b"\0"
        descriptor = os.memfd_create("reflexarc-keymap", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(data)
            self._connection.request(self._object, "keymap", XKB_V1, descriptor, len(data))
        finally:
            os.close(descriptor)
        self._modify(self._held, self._locked)

    def _send(self, code: int, state: int) -> None:
        assert self._object is not None
        self._connection.request(self._object, "key", milliseconds(), code, state)

    def _modify(self, held: int, locked: int) -> None:
        assert self._object is not None
        self._connection.request(self._object, "modifiers", held, 0, locked, 0)
