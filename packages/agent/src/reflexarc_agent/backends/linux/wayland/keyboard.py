"""Keys and text through a virtual keyboard with a keymap of our own.

The compositor hands a new keymap on to each client in the order of the keys typed before and after it.
Source: virtual-keyboard-unstable-v1; wayland.xml, "wl_keyboard.modifiers".
"""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, List, Optional

from reflexarc_agent.backends.linux.errors import NotTypeableError
from reflexarc_agent.backends.linux.keysyms import chord_keys, keysym
from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.keymap import LOCK, SHIFT, Keymap, Stroke
from reflexarc_agent.backends.linux.wayland.memory import anonymous
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
        self._down: Dict[str, Stroke] = {}
        self._active: List[Stroke] = []
        self._locked = 0

    def require(self) -> None:
        """Raise NotOfferedError where this compositor lets nobody type."""
        self._connection.only(MANAGER, 1, WHAT)
        self._seat.require(WHAT)

    # -- keys

    def key(self, chord: str) -> None:
        """Press keys together, as "ctrl+alt+t"; raises NotTypeableError where one isn't a key."""
        names = chord_keys(chord)
        with self._connection.lock:
            strokes = self._strokes(names)
            for stroke in strokes:
                self._press(stroke)
            for stroke in reversed(strokes):
                self._let_go(stroke)
            self._connection.roundtrip("pressing keys")

    def key_down(self, name: str) -> None:
        """Hold a key down, until `key_up` or `release`."""
        with self._connection.lock:
            (stroke,) = self._strokes([name])
            self._down[name.lower()] = stroke
            self._press(stroke)
            self._connection.roundtrip("pressing a key")

    def key_up(self, name: str) -> None:
        """Let a key go."""
        with self._connection.lock:
            (stroke,) = self._strokes([name])
            self._let_go(self._down.pop(name.lower(), stroke))
            self._connection.roundtrip("releasing a key")

    def release(self) -> None:
        """Let everything go that is still held down."""
        with self._connection.lock:
            for stroke in [*self._active]:
                self._let_go(stroke)
            self._down.clear()
            self._connection.roundtrip("releasing keys")

    def _strokes(self, names: List[str]) -> List[Stroke]:
        """The strokes of names; characters that no key has are put on further levels first."""
        known = [self._keymap.key(name) for name in names]
        signs = [name.lower() if name.isascii() else name for name, code in zip(names, known) if not code]
        syms = [keysym(sign) for sign in signs]
        self._open()
        placed = iter(self._place(syms))
        return [Stroke(code) if code else next(placed) for code in known]

    def _press(self, stroke: Stroke) -> None:
        modifier = self._keymap.modifier(stroke.code)
        self._active.append(stroke)
        if stroke.modifiers:
            self._modify()
        self._send(stroke.code, PRESSED)
        if modifier:
            self._locked ^= modifier & LOCK
            self._modify()

    def _let_go(self, stroke: Stroke) -> None:
        if stroke in self._active:
            self._active.remove(stroke)
        self._send(stroke.code, RELEASED)
        if stroke.modifiers or self._keymap.modifier(stroke.code):
            self._modify()

    @property
    def _held(self) -> int:
        """The modifiers of the keys that are down."""
        held = 0
        for stroke in self._active:
            held |= self._keymap.modifier(stroke.code) | stroke.modifiers
        return held & ~LOCK

    # -- text

    def type(self, text: str) -> None:
        """Type a text; raises NotTypeableError, before anything is typed, where a character can't be."""
        if len(text) > CHARACTERS:
            raise NotTypeableError(f"{len(text)} characters are too many at once; {CHARACTERS} are allowed")
        syms = [keysym(character) for character in text.replace("\r\n", "\n")]
        with self._connection.lock:
            self._open()
            locked, self._locked = self._locked, 0
            self._modify()
            try:
                while syms:
                    count = self._keymap.fitting(syms, BATCH)
                    self._type(syms[:count])
                    syms = syms[count:]
            finally:
                self._locked = locked
                self._modify()

    def _type(self, syms: List[int]) -> None:
        for stroke in self._place(syms):
            if stroke.modifiers == SHIFT:
                self._send(self._keymap.shift, PRESSED)
            self._press(stroke)
            self._let_go(stroke)
            if stroke.modifiers == SHIFT:
                self._send(self._keymap.shift, RELEASED)
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
        descriptor = anonymous(len(data))
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(data)
            self._connection.request(self._object, "keymap", XKB_V1, descriptor, len(data))
        finally:
            os.close(descriptor)
        self._modify()

    def _send(self, code: int, state: int) -> None:
        assert self._object is not None
        self._connection.request(self._object, "key", milliseconds(), code, state)

    def _modify(self) -> None:
        assert self._object is not None
        self._connection.request(self._object, "modifiers", self._held, 0, self._locked, 0)
