"""The keys that are down on a machine, and what each further one sets off; serial sequences that do the same."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from reflexarc.errors import ConfigError
from reflexarc.machine import keys
from reflexarc.machine.capabilities import KeyEvent
from reflexarc.machine.policy import set_off

_ALT = {"alt", "alt_r"}
_SYSRQ = {"sysrq", "print"}
_LISTENS = "sysrq-listens"
# Source: QEMU, system documentation, keys in the character backend multiplexer: b sends a BREAK, x ends the
# emulator, c goes to its monitor.
_ESCAPE = "\x01"
_ESCAPED = {"b": "power.reset", "x": "power.off", "c": "power.off"}
MAX_KEPT = 4096


class Board:
    """The keys of one board that are down, and whether Magic SysRq listens.

    It does from the moment its key is down together with Alt until Alt is let go, whatever becomes of its own key.
    """

    def __init__(self, down: Iterable[str] = (), *, listens: bool = False) -> None:
        self.down = frozenset(down)
        self.listens = listens

    def after(self, events: Iterable[KeyEvent]) -> Board:
        """The board once these keys have moved."""
        board = Board(self.down, listens=self.listens)
        for event in events:
            board.take(event)
        return board

    def take(self, event: KeyEvent) -> frozenset[str]:
        """Move a key and return the power operations that this sets off."""
        before = set_off(self.down, sysrq=self.listens)
        self.down = self.down | {event.key} if event.down else self.down - {event.key}
        alt = bool(self.down & _ALT)
        self.listens = alt and (self.listens or bool(self.down & _SYSRQ))
        after = set_off(self.down, sysrq=self.listens)
        pressed = event.key.removesuffix("_r") if event.down else ""
        return frozenset(op for op, key in after if (op, key) not in before or key == pressed)

    def sets_off(self, events: Iterable[KeyEvent]) -> list[str]:
        """The power operations that events would set off, in order; nothing moves."""
        board = self.after(())
        return [operation for event in events for operation in sorted(board.take(event))]


class Kept:
    """Words about a machine, in a file for whoever comes after: another program, or one after a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[str, ...]:
        """The words that were kept; raises ConfigError where that can't be told."""
        try:
            with open(self._path, "rb") as file:
                return tuple(file.read(MAX_KEPT).decode("ascii", "replace").split())
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._error("read", error) from error

    def write(self, words: Collection[str]) -> None:
        """Keep these words instead, whole or not at all; raises ConfigError where they can't be kept."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            fresh.write_text(" ".join(sorted(words)), encoding="ascii")
            fresh.replace(self._path)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink()
            raise self._error("write", error) from error

    def _error(self, act: str, error: OSError) -> ConfigError:
        return ConfigError(
            f"can't {act} what is down on the machine: {error.strerror}; nothing was sent. "
            "Check the disk and the rights of that folder",
            path=self._path,
        )


class KeysDown:
    """The board of a machine, kept for whoever comes after."""

    def __init__(self, path: Path) -> None:
        self._kept = Kept(path)

    def read(self) -> Board:
        """The board as it was kept; what is no key is left out."""
        words = self._kept.read()
        return Board((word for word in words if word in keys.KEYS), listens=_LISTENS in words)

    def write(self, board: Board) -> None:
        """Keep a board instead."""
        self._kept.write([*board.down, *([_LISTENS] if board.listens else [])])


def serial_operations(data: str, *, escaped: bool) -> tuple[list[str], bool]:
    """The power operations that a text to a serial console is, and whether it ends in the middle of an escape.

    escaped: the text before ended so. A BREAK counts as the reset that it opens the way to: the letter after it
    may come from anywhere.
    """
    found = []
    for character in data:
        if escaped:
            found += [_ESCAPED[character]] if character in _ESCAPED else []
            escaped = False
        else:
            escaped = character == _ESCAPE
    return found, escaped
