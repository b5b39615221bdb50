"""The keymap of our keyboard: a US one, and other characters on further levels of its printing keys.

Keys that a US keyboard lacks won't do: browsers take them for Back or Reload, whatever character they have.

Source: "The XKB keymap text format, V1" (libxkbcommon); linux/input-event-codes.h.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Callable, Dict, Iterable, List, NamedTuple, Tuple

from reflexarc_agent.backends.linux.errors import NotTypeableError
from reflexarc_agent.backends.linux.keysyms import KEYS, UNICODE, keysym

OFFSET = 8
"""X counts keys from here."""

SETTLE = 0.4
"""Seconds after which also a client of Xwayland has read a key that was typed."""

_ROWS = (
    (2, "1234567890-=", "!@#$%^&*()_+"),
    (16, "qwertyuiop[]", "QWERTYUIOP{}"),
    (30, "asdfghjkl;'`", 'ASDFGHJKL:"~'),
    (43, "\\zxcvbnm,./", "|ZXCVBNM<>?"),
)
_TYPED = {"\n": "Return", "\t": "Tab", "\b": "BackSpace", "\x1b": "Escape", " ": "space"}
_SPECIAL = {
    1: "Escape",
    14: "BackSpace",
    15: "Tab",
    28: "Return",
    29: "Control_L",
    42: "Shift_L",
    54: "Shift_R",
    56: "Alt_L",
    57: "space",
    58: "Caps_Lock",
    97: "Control_R",
    99: "Print",
    100: "ISO_Level3_Shift",
    102: "Home",
    103: "Up",
    104: "Prior",
    105: "Left",
    106: "Right",
    107: "End",
    108: "Down",
    109: "Next",
    110: "Insert",
    111: "Delete",
    119: "Pause",
    125: "Super_L",
    126: "Super_R",
    127: "Menu",
    **{58 + number: f"F{number}" for number in range(1, 11)},
    87: "F11",
    88: "F12",
    **{170 + number: f"F{number}" for number in range(13, 25)},
}

SHIFT, LOCK, CONTROL, ALT, LEVEL5, SUPER, LEVEL3 = 1, 2, 4, 8, 32, 64, 128
LEVELS = (LEVEL3, LEVEL5, LEVEL3 | LEVEL5)
"""The modifiers of the levels that characters are put on."""

MODIFIERS = {
    "Shift_L": SHIFT,
    "Shift_R": SHIFT,
    "Caps_Lock": LOCK,
    "Control_L": CONTROL,
    "Control_R": CONTROL,
    "Alt_L": ALT,
    "Super_L": SUPER,
    "Super_R": SUPER,
    "ISO_Level3_Shift": LEVEL3,
}
"""The modifier that a key is, as the bit that the protocol gives it."""

_MAPPED = {SHIFT: "Shift", LOCK: "Lock", CONTROL: "Control", ALT: "Mod1", SUPER: "Mod4", LEVEL3: "Mod5"}

_LEVELS = """map[Shift]= 2; map[Mod5]= 3; map[Mod3]= 4; map[Mod3+Mod5]= 5;
level_name[1]= "1"; level_name[2]= "2"; level_name[3]= "3"; level_name[4]= "4"; level_name[5]= "5";"""
_TYPES = f"""xkb_types "reflexarc" {{
virtual_modifiers Alt,Super;
type "ONE_LEVEL" {{ modifiers= none; level_name[1]= "1"; }};
type "SIGN" {{ modifiers= Shift+Mod3+Mod5; {_LEVELS} }};
type "LETTER" {{ modifiers= Shift+Lock+Mod3+Mod5; map[Lock]= 2; {_LEVELS} }};
}};
"""
_COMPATIBILITY = """xkb_compatibility "reflexarc" {
virtual_modifiers Alt,Super;
interpret Alt_L+AnyOf(all) { virtualModifier= Alt; action= SetMods(modifiers=modMapMods,clearLocks); };
interpret Super_L+AnyOf(all) { virtualModifier= Super; action= SetMods(modifiers=modMapMods,clearLocks); };
interpret Caps_Lock+AnyOf(all) { action= LockMods(modifiers=Lock); };
interpret Any+AnyOf(all) { action= SetMods(modifiers=modMapMods,clearLocks); };
};
"""


class Stroke(NamedTuple):
    """A key, as the kernel numbers it, and the modifiers that are held with it."""

    code: int
    modifiers: int = 0


class Keymap:
    """Which key types what; characters that a US keyboard lacks take turns on further levels."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._printing: Dict[int, Tuple[str, str]] = {}
        self._strokes: Dict[int, Stroke] = {}
        for first, plain, shifted in _ROWS:
            for at, (low, high) in enumerate(zip(plain, shifted)):
                self._printing[first + at] = (low, high)
                self._strokes[ord(low)] = Stroke(first + at)
                self._strokes[ord(high)] = Stroke(first + at, SHIFT)
        self._codes = {name: code for code, name in reversed(list(_SPECIAL.items()))}
        for character, name in _TYPED.items():
            self._strokes[keysym(character)] = Stroke(self._codes[name])
        self.spare = [Stroke(code, level) for level in LEVELS for code in self._printing]
        self._pool: OrderedDict[int, Tuple[Stroke, float]] = OrderedDict()

    @property
    def shift(self) -> int:
        """The key that is shift."""
        return self._codes["Shift_L"]

    def modifier(self, code: int) -> int:
        """The modifier that a key is, 0 where it is none."""
        return MODIFIERS.get(_SPECIAL.get(code, ""), 0)

    def key(self, name: str) -> int:
        """The key of a name, 0 for what is typed as a character; raises NotTypeableError where it is neither."""
        known = KEYS.get(name.lower())
        if known:
            return self._codes[known]
        if len(name) != 1:
            raise NotTypeableError(f"there is no key {name[:40]!r}")
        return 0

    def fitting(self, syms: List[int], most: int) -> int:
        """How many of the first of these, at most so many, there is room for at once."""
        wanted: set[int] = set()
        for at, sym in enumerate(syms[:most]):
            if sym not in self._strokes:
                wanted.add(sym)
            if len(wanted) > len(self.spare):
                return at
        return min(len(syms), most)

    def place(self, syms: Iterable[int]) -> Tuple[Dict[int, Stroke], bool, float]:
        """The strokes of some keysyms, whether the keymap has changed for them, and how long to wait before it is sent.

        A level is given another character only when the clients have had time to read the last one typed with it.
        """
        placed = {sym: self._strokes[sym] for sym in syms if sym in self._strokes}
        rest = [sym for sym in dict.fromkeys(syms) if sym not in placed]
        missing = [sym for sym in rest if sym not in self._pool]
        now, pause = self._clock(), 0.0
        for sym in rest:
            if sym in self._pool:
                self._pool.move_to_end(sym)
        used = {stroke for stroke, _ in self._pool.values()}
        free = [stroke for stroke in self.spare if stroke not in used]
        while len(free) < len(missing):
            _, (stroke, typed_at) = self._pool.popitem(last=False)
            pause = max(pause, typed_at + SETTLE - now)
            free.append(stroke)
        for sym, stroke in zip(missing, free):
            self._pool[sym] = (stroke, now)
        placed.update((sym, self._pool[sym][0]) for sym in rest)
        return placed, bool(missing), pause

    def typed(self, syms: Iterable[int]) -> None:
        """Take note that these were typed just now."""
        now = self._clock()
        for sym in syms:
            if sym in self._pool:
                self._pool[sym] = (self._pool[sym][0], now)

    def text(self) -> str:
        """The keymap as the compositor reads it."""
        lent = {stroke: f"U{sym & ~UNICODE:04X}" for sym, (stroke, _) in self._pool.items()}
        keys = [f"key <K{code}> {{ [ {name} ] }};" for code, name in _SPECIAL.items()]
        for code, (low, high) in self._printing.items():
            kind = "LETTER" if low.isalpha() else "SIGN"
            levels = [f"U{ord(low):04X}", f"U{ord(high):04X}"]
            levels += [lent.get(Stroke(code, level), "NoSymbol") for level in LEVELS]
            keys.append(f'key <K{code}> {{ type= "{kind}", [ {", ".join(levels)} ] }};')
        codes = "\n".join(f"<K{code}> = {code + OFFSET};" for code in (*_SPECIAL, *self._printing))
        mapped = "\n".join(
            f"modifier_map {_MAPPED[bit]} {{ <K{self._codes[name]}> }};" for name, bit in MODIFIERS.items()
        )
        symbols = "\n".join(keys)
        return (
            f'xkb_keymap {{\nxkb_keycodes "reflexarc" {{\nminimum = 8;\nmaximum = 255;\n{codes}\n}};\n'
            f'{_TYPES}{_COMPATIBILITY}xkb_symbols "reflexarc" {{\n{symbols}\n{mapped}\n}};\n}};\n'
        )
