"""The keyboard as callers get it: guarded, with holds, chords and texts; drivers only move single keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from reflexarc.errors import ConfigError
from reflexarc.machine import keys
from reflexarc.machine.capabilities import Keyboard, KeyEvent
from reflexarc.machine.chords import Board, KeysDown
from reflexarc.machine.guard import Guard

__all__ = ["GuardedKeyboard", "KeysDown"]

# Firmware polls USB keyboards as slowly as every 30 ms and misses shorter taps.
HOLD = 0.05
# Time between typed characters; PS/2 queues hold 16 bytes and a character is up to 8.
TYPING_GAP = 0.015


class GuardedKeyboard:
    """Keys of one machine.

    Whatever keys would be down together is judged, whichever calls and programs put them down: a chord that
    reboots is the power operation it causes. kept: where the keys that are down are kept for other programs.
    pressed_at: when a key last went down.
    """

    def __init__(self, keyboard: Keyboard, guard: Guard, layout: str, kept: KeysDown | None = None) -> None:
        self._keyboard = keyboard
        self._guard = guard
        self._layout = layout
        self._kept = kept
        self._board = Board()
        self._own: set[str] = set()
        self.pressed_at: float | None = None

    async def send(self, events: Sequence[KeyEvent]) -> None:
        """Deliver key events in order; raises SafetyError before any is sent when one of them is refused."""
        for event in events:
            if event.key not in keys.KEYS:
                raise ConfigError(f"there is no key {event.key!r}")
        await self._admit(events, keys=[e.key for e in events if e.down])
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
            await self._admit(_tap_events(chord), keys=list(chord))
            await self._tap(chord, hold)

    async def type(self, text: str, *, secret: bool = False, slower: float = 1.0) -> None:
        """Type a text in the machine's layout; newlines are Enter. `slower` stretches the gaps between keys.

        Raises ConfigError, before anything is sent, when the layout can't type a character.
        """
        strokes = keys.strokes(text, self._layout)
        shown = {"characters": len(text)} if secret else {"text": text}
        self._guard.check("keyboard.type", **shown)
        await self._admit([event for stroke in strokes for event in _tap_events(stroke)])
        for stroke in strokes:
            await self._deliver(_tap_events(stroke))
            await asyncio.sleep(TYPING_GAP * slower)

    @property
    def is_down(self) -> bool:
        """Whether a key is down that calls pressed."""
        return bool(self._own)

    async def release_all(self) -> None:
        """Let go every key that calls left down."""
        if self._own:
            await self._let_go(sorted(self._own))

    async def release_others(self) -> None:
        """Let go every key that another program left down."""
        left = self._present().down - self._own
        if left:
            await self._let_go(sorted(left))

    async def _tap(self, chord: Sequence[str], hold: float) -> None:
        await self._deliver([KeyEvent(key, True) for key in chord])
        try:
            await asyncio.sleep(hold)
        finally:
            await self._let_go(chord[::-1])

    async def _let_go(self, chord: Sequence[str]) -> None:
        """Let keys go, whatever becomes of the note of them."""
        try:
            await self._deliver([KeyEvent(key, False) for key in chord])
        except ConfigError:
            await self._keyboard.send([KeyEvent(key, False) for key in chord])

    async def _admit(self, events: Sequence[KeyEvent], **details: object) -> None:
        """Put to the guard the power operations that the events set off, or else, with details, plain keys."""
        board = self._present()
        operations = board.sets_off([*self._others(board, events), *events])
        for operation in operations:
            down = sorted({*board.down, *(event.key for event in events if event.down)})
            await self._guard.admit(operation, keys=down)
        if details and not operations:
            self._guard.check("keyboard.press", **details)

    async def _deliver(self, events: Sequence[KeyEvent]) -> None:
        """Send the events; first lets go what another program left down, which would make chords of ours.

        Keys are kept as down before they are, so that a kill in between leaves none that nobody knows of.
        """
        self._guard.require_own()
        board = self._present()
        others = self._others(board, events)
        pressed = [event for event in events if event.down]
        if self._kept is not None and pressed:
            self._kept.write(board.after(pressed))
        if others:
            await self._keyboard.send(others)
        for event in events:
            (self._own.add if event.down else self._own.discard)(event.key)
        if pressed:
            self.pressed_at = time.monotonic()
        await self._keyboard.send(events)
        self._board = board.after([*others, *events])
        if self._kept is not None:
            self._kept.write(self._board)

    def _present(self) -> Board:
        return self._kept.read() if self._kept is not None else self._board

    def _others(self, board: Board, events: Sequence[KeyEvent]) -> list[KeyEvent]:
        """What lets go the keys of other programs, where one of ours is to go down."""
        if not any(event.down for event in events):
            return []
        return [KeyEvent(key, False) for key in sorted(board.down - self._own)]


def _tap_events(chord: Sequence[str]) -> list[KeyEvent]:
    return [KeyEvent(key, True) for key in chord] + [KeyEvent(key, False) for key in reversed(chord)]
