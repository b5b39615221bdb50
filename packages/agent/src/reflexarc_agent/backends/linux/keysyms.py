"""Names of keys and numbers of characters, as X and Wayland have them.

Source: X protocol, "KEYSYM encoding".
"""

from __future__ import annotations

from reflexarc_agent.backends.linux.errors import NotTypeableError

UNICODE = 0x1000000

KEYS = {
    "ctrl": "Control_L", "control": "Control_L", "shift": "Shift_L", "alt": "Alt_L", "option": "Alt_L",
    "super": "Super_L", "cmd": "Super_L", "meta": "Super_L", "win": "Super_L", "altgr": "ISO_Level3_Shift",
    "enter": "Return", "return": "Return", "esc": "Escape", "escape": "Escape", "tab": "Tab",
    "space": "space", "backspace": "BackSpace", "delete": "Delete", "del": "Delete", "insert": "Insert",
    "home": "Home", "end": "End", "pageup": "Prior", "pagedown": "Next", "up": "Up", "down": "Down",
    "left": "Left", "right": "Right", "menu": "Menu", "print": "Print", "pause": "Pause", "capslock": "Caps_Lock",
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}  # fmt: skip
"""X names of the keys that a chord can hold; anything else in it is one character."""

_CONTROLS = {"\n": 0xFF0D, "\r": 0xFF0D, "\t": 0xFF09, "\b": 0xFF08, "\x1b": 0xFF1B}


def keysym(character: str) -> int:
    """The number that X gives a character; raises NotTypeableError where it has none."""
    point = ord(character)
    if character in _CONTROLS:
        return _CONTROLS[character]
    if 0x20 <= point < 0x7F or 0xA0 <= point < 0x100:
        return point
    if point < 0x100 or 0xD800 <= point < 0xE000:
        raise NotTypeableError(f"U+{point:04X} is no character that can be typed")
    return UNICODE | point


def chord_keys(chord: str) -> list[str]:
    """The keys of a chord as "ctrl+alt+t"; raises NotTypeableError where they aren't one to eight."""
    parts = [part for part in chord.split("+") if part]
    if chord.endswith("++") or chord == "+":
        parts.append("+")
    if not 0 < len(parts) <= 8:
        raise NotTypeableError(f"{chord[:40]!r} is no chord of one to eight keys")
    return parts
