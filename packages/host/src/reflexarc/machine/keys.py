"""Key names, chords and texts: from what a person writes to keys by their place on the board.

Canonical names are those of a US board.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from reflexarc.errors import ConfigError
from reflexarc.machine.layouts import LAYOUTS, Stroke

MODIFIERS = ("ctrl", "alt", "shift", "meta", "ctrl_r", "alt_r", "shift_r", "meta_r")

_PUNCTUATION = {
    "minus": "-_", "equal": "=+", "bracket_left": "[{", "bracket_right": "]}", "backslash": "\\|",
    "semicolon": ";:", "apostrophe": "'\"", "grave": "`~", "comma": ",<", "dot": ".>", "slash": "/?",
}  # fmt: skip

KEYS = frozenset(
    [*"abcdefghijklmnopqrstuvwxyz0123456789", *MODIFIERS, *_PUNCTUATION]
    + [f"f{n}" for n in range(1, 25)]
    + [f"kp_{n}" for n in range(10)]
    + ["kp_enter", "kp_add", "kp_subtract", "kp_multiply", "kp_divide", "kp_dot"]
    + ["enter", "esc", "tab", "space", "backspace", "delete", "insert", "home", "end", "page_up", "page_down"]
    + [
        "up",
        "down",
        "left",
        "right",
        "caps_lock",
        "num_lock",
        "scroll_lock",
        "print",
        "sysrq",
        "pause",
        "menu",
    ]
    + ["less", "power", "sleep", "wake"]
)

_ALIASES = {
    "return": "enter", "ret": "enter", "escape": "esc", "control": "ctrl", "ctl": "ctrl", "option": "alt",
    "altgr": "alt_r", "super": "meta", "win": "meta", "cmd": "meta", "windows": "meta", "del": "delete",
    "ins": "insert", "pgup": "page_up", "pageup": "page_up", "pgdn": "page_down", "pagedown": "page_down",
    "spc": "space", "bksp": "backspace", "print_screen": "print", "prtsc": "print", "capslock": "caps_lock",
    "numlock": "num_lock", "kp_plus": "kp_add", "kp_minus": "kp_subtract", "arrowup": "up",
    "arrowdown": "down", "arrowleft": "left", "arrowright": "right", "plus": "equal",
}  # fmt: skip


def canonical(name: str) -> str:
    """Return the canonical name of a key; letter case and `-`/`_` don't matter, single characters serve too.

    Raises ConfigError, with the nearest names, when there is no such key.
    """
    lowered = name.strip().lower() if name != " " else "space"
    if len(lowered) == 1 and lowered not in KEYS:
        for key, characters in _PUNCTUATION.items():
            if lowered == characters[0]:
                return key
    spelled = lowered.replace("-", "_").replace(" ", "_")
    spelled = _ALIASES.get(spelled, spelled)
    if spelled in KEYS:
        return spelled
    near = get_close_matches(spelled, [*KEYS, *_ALIASES], n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise ConfigError(f"there is no key {name!r}{hint}")


def spellings() -> Mapping[str, frozenset[str]]:
    """Every lower-case way to write each key, by its canonical name; `_` may be `-` or a blank, too."""
    written = {key: {key} for key in KEYS}
    for alias, key in _ALIASES.items():
        written[key].add(alias)
    for key, characters in _PUNCTUATION.items():
        written[key].add(characters[0])
    return {key: frozenset(ways) for key, ways in written.items()}


def chord(text: str) -> tuple[str, ...]:
    """Split `ctrl+alt+f2` into canonical keys, in the order in which they go down.

    Raises ConfigError for an unknown key, an empty part or a key named twice.
    """
    keys = tuple(canonical(part) for part in text.split("+"))
    if len(set(keys)) != len(keys):
        raise ConfigError(f"the chord {text!r} names a key twice")
    return keys


def strokes(text: str, layout: str) -> list[Stroke]:
    """Return the strokes that type a text, each the keys that are down together.

    Raises ConfigError before anything is sent when the layout is unknown or can't type a character; the text
    itself is not repeated in the error, only the character and its place.
    """
    table = LAYOUTS.get(layout)
    if table is None:
        raise ConfigError(f"there is no keyboard layout {layout!r}; known: {', '.join(sorted(LAYOUTS))}")
    for position, character in enumerate(text):
        if character not in table:
            raise ConfigError(
                f"the keyboard layout {layout!r} can't type {character!r} (character {position + 1})"
            )
    return [stroke for character in text for stroke in table[character]]
