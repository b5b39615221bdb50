"""Keyboard layouts: which keys of a US board, held together, give a character.

Each row is written as the keys' names and what they give plain, with Shift, and with AltGr (a blank: nothing
that can be relied on). `dead` characters come with the space bar after them.
Source: the symbols files of the X keyboard extension (us, gb, de, fr), which Debian's consoles use too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Stroke = tuple[str, ...]
Layout = Mapping[str, tuple[Stroke, ...]]

_DIGITS = "1 2 3 4 5 6 7 8 9 0 minus equal"
_TOP = "q w e r t y u i o p bracket_left bracket_right"
_HOME = "a s d f g h j k l semicolon apostrophe backslash"
_BOTTOM = "less z x c v b n m comma dot slash"

_ROWS: Mapping[str, tuple[tuple[str, str, str, str], ...]] = {
    "us": (
        ("grave", "`", "~", " "),
        (_DIGITS, "1234567890-=", "!@#$%^&*()_+", " "),
        (_TOP, "qwertyuiop[]", "QWERTYUIOP{}", " "),
        (_HOME, "asdfghjkl;'\\", 'ASDFGHJKL:"|', " "),
        (_BOTTOM, " zxcvbnm,./", " ZXCVBNM<>?", " "),
    ),
    "gb": (
        ("grave", "`", "¬", " "),
        (_DIGITS, "1234567890-=", '!"£$%^&*()_+', "   €"),
        (_TOP, "qwertyuiop[]", "QWERTYUIOP{}", " "),
        (_HOME, "asdfghjkl;'#", "ASDFGHJKL:@~", " "),
        (_BOTTOM, "\\zxcvbnm,./", "|ZXCVBNM<>?", " "),
    ),
    "de": (
        ("grave", " ", "°", " "),
        (_DIGITS, "1234567890ß ", '!"§$%&/()=? ', " ²³   {[]}\\"),
        (_TOP, "qwertzuiopü+", "QWERTZUIOPÜ*", "@ €        ~"),
        (_HOME, "asdfghjklöä#", "ASDFGHJKLÖÄ'", " "),
        (_BOTTOM, "<yxcvbnm,.-", ">YXCVBNM;:_", "|      µ"),
    ),
    "fr": (
        ("grave", "²", " ", " "),
        (_DIGITS, "&é\"'(-è_çà)=", "1234567890°+", " ~#{[|`\\^@]}"),
        (_TOP, "azertyuiop $", "AZERTYUIOP £", "  €        ¤"),
        (_HOME, "qsdfghjklmù*", "QSDFGHJKLM%µ", " "),
        (_BOTTOM, "<wxcvbn,;:!", ">WXCVBN?./§", " "),
    ),
}
_DEAD: Mapping[str, Mapping[str, Stroke]] = {
    "us": {},
    "gb": {},
    "de": {"^": ("grave",), "´": ("equal",), "`": ("shift", "equal")},
    "fr": {"¨": ("shift", "bracket_left")},
}
_HELD: tuple[Stroke, ...] = ((), ("shift",), ("alt_r",))


def _layout(name: str) -> Layout:
    layout: dict[str, tuple[Stroke, ...]] = {" ": (("space",),), "\n": (("enter",),), "\t": (("tab",),)}
    for keys, *levels in _ROWS[name]:
        for held, characters in zip(_HELD, levels, strict=True):
            for key, character in zip(keys.split(), characters, strict=False):
                if character != " ":
                    layout.setdefault(character, ((*held, key),))
    for character, stroke in _DEAD[name].items():
        layout[character] = (stroke, ("space",))
    return MappingProxyType(layout)


LAYOUTS: Mapping[str, Layout] = MappingProxyType({name: _layout(name) for name in _ROWS})
