"""The keyboard as callers get it: guarded, with holds, chords and texts; drivers only move single keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from reflexarc.machine import keys
from reflexarc.machine.capabilities import Keyboard, KeyEvent
from reflexarc.machine.guard import Guard
from reflexarc.machine.policy import chord_operation

# Firmware polls USB keyboards as slowly as every 30 ms and misses shorter taps.
HOLD = 0.05
# Time between typed characters; PS/2 queues hold 16 bytes and a character is up to 8.
TYPING_GAP = 0.015


class KeysDown:
    """The keys that are down on a machine, kept in a file for whoever comes after a program that was killed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[str, ...]:
        """Names of the keys that were left down; none where that can't be told."""
        try:
            names = self._path.read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError):
            return ()
        return tuple(name for name in names if name in keys.KEYS)

    def write(self, down: Collection[str]) -> None:
        """Keep the keys that are about to be down."""
        with suppress(OSError):
            self._path.write_text(" ".join(sorted(down)), encoding="ascii")


class GuardedKeyboard:
    """Keys of one machine.

    Whatever keys would be down together is judged, whichever calls put them down: a chord that reboots is
    the power operation it causes. pressed_at: when a key last went down.
    """

    def __init__(self, keyboard: Keyboard, guard: Guard, layout: str, kept: KeysDown | None = None) -> None:
        self._keyboard = keyboard
        self._guard = guard
        self._layout = layout
        self._kept = kept
        self._down: set[str] = set()
        self._fresh = True
        self.pressed_at: float | None = None

    async def send(self, events: Sequence[KeyEvent]) -> None:
        """Deliver key events in order; raises SafetyError before any is sent when one of them is refused."""
        self._judge(events, "keyboard.press", keys=[e.key for e in events if e.down])
        await self._deliver(events)

    async def down(self, key: str) -> None:
        """Press a key and leave it down."""
        await self.send([KeyEvent(keys.canonical(key), True)])

    async def up(self, key: str) -> None:
        """Let a key go."""
        await self.send([KeyEvent(keys.canonical(key), False)])

    async def press(self, key: str, *, times: int = 1, hold: float = HOLD) -> None:
        """Tap a key or a chord such as `ctrl+alt+f2`, `times` times, each held for `hold` seconds.

        Raises ConfigError for a key that doesn't exist; nothing was sent then.
        """
        chord = keys.chord(key)
        for _ in range(times):
            self._judge([KeyEvent(k, True) for k in chord], "keyboard.press", keys=list(chord))
            await self._tap(chord, hold)

    async def type(self, text: str, *, secret: bool = False, slower: float = 1.0) -> None:
        """Type a text in the machine's layout; newlines are Enter. `slower` stretches the gaps between keys.

        Raises ConfigError, before anything is sent, when the layout can't type a character.
        """
        strokes = keys.strokes(text, self._layout)
        shown = {"characters": len(text)} if secret else {"text": text}
        self._guard.check("keyboard.type", **shown)
        for stroke in strokes:
            self._judge([KeyEvent(k, True) for k in stroke], None)
            await self._deliver(_tap_events(stroke))
            await asyncio.sleep(TYPING_GAP * slower)

    async def release_all(self) -> None:
        """Let go every key that calls left down."""
        if self._down:
            await self._deliver([KeyEvent(key, False) for key in sorted(self._down)])

    async def _let_go_of_others(self) -> None:
        """Before the first key: let go what another program left down, which would make chords of ours."""
        self._fresh = False
        left = self._kept.read() if self._kept is not None else ()
        if left:
            await self._keyboard.send([KeyEvent(key, False) for key in left])

    async def _tap(self, chord: Sequence[str], hold: float) -> None:
        events = _tap_events(chord)
        await self._deliver(events[: len(chord)])
        try:
            await asyncio.sleep(hold)
        finally:
            await self._deliver(events[len(chord) :])

    def _judge(self, events: Sequence[KeyEvent], operation: str | None, **details: object) -> None:
        down = set(self._down)
        for event in events:
            (down.add if event.down else down.discard)(event.key)
            power = chord_operation(down)
            if power is not None and event.down:
                self._guard.check(power, keys=sorted(down))
                return
        if operation is not None:
            self._guard.check(operation, **details)

    async def _deliver(self, events: Sequence[KeyEvent]) -> None:
        self._guard.require_own()
        if self._fresh:
            await self._let_go_of_others()
        for event in events:
            (self._down.add if event.down else self._down.discard)(event.key)
        if self._kept is not None:
            self._kept.write(self._down)
        if any(event.down for event in events):
            self.pressed_at = time.monotonic()
        await self._keyboard.send(events)


def _tap_events(chord: Sequence[str]) -> list[KeyEvent]:
    return [KeyEvent(key, True) for key in chord] + [KeyEvent(key, False) for key in reversed(chord)]
