"""Key names, chords, layouts, and what chords are judged to be."""

from __future__ import annotations

import string

import pytest

from reflexarc.errors import ConfigError
from reflexarc.machine.keys import KEYS, canonical, chord, strokes
from reflexarc.machine.layouts import LAYOUTS
from reflexarc.machine.policy import chord_operation


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("Enter", "enter"), ("RETURN", "enter"), ("PgUp", "page_up"), ("page-down", "page_down"), ("/", "slash"),
        ("a", "a"), ("A", "a"), (" ", "space"), ("F12", "f12"), ("Ctrl", "ctrl"), ("Escape", "esc"),
    ],
)  # fmt: skip
def test_names_are_forgiving(written: str, key: str) -> None:
    assert canonical(written) == key


@pytest.mark.parametrize("written", ["entre", "", "f25", "ctrl+c", "\x00", "ü"])
def test_a_key_that_does_not_exist(written: str) -> None:
    with pytest.raises(ConfigError, match="there is no key"):
        canonical(written)


@pytest.mark.parametrize("written", ["ctrl+", "+", "ctrl++c", "ctrl+ctrl", "ctrl+control+a"])
def test_what_is_no_chord(written: str) -> None:
    with pytest.raises(ConfigError):
        chord(written)


@pytest.mark.parametrize(
    ("written", "operation"),
    [
        ("ctrl+alt+delete", "power.reset"),
        ("Control+Option+Del", "power.reset"),
        ("ctrl_r+altgr+kp_dot", "power.reset"),
        ("alt+sysrq+b", "power.reset"),
        ("alt+print_screen+c", "power.reset"),
        ("shift+alt+sysrq+o", "power.off"),
        ("power", "power.shutdown"),
        ("sleep", "power.shutdown"),
        ("alt+sysrq+s", None),
        ("ctrl+alt+f2", None),
        ("ctrl+delete", None),
    ],
)
def test_chords_that_switch_power(written: str, operation: str | None) -> None:
    assert chord_operation(chord(written)) == operation


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_types_all_of_ascii(layout: str) -> None:
    printable = string.ascii_letters + string.digits + string.punctuation + " \n\t"
    if layout == "fr":
        assert "^" in LAYOUTS["fr"]
    for character in printable:
        typed = strokes(character, layout)
        assert typed
        assert {key for stroke in typed for key in stroke} <= KEYS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_two_characters_share_their_strokes(layout: str) -> None:
    table = LAYOUTS[layout]
    assert len(set(table.values())) == len(table)


@pytest.mark.parametrize(
    ("layout", "text", "typed"),
    [
        ("us", "Az#", [("shift", "a"), ("z",), ("shift", "3")]),
        ("gb", '#"@£', [("backslash",), ("shift", "2"), ("shift", "apostrophe"), ("shift", "3")]),
        ("de", "zY/{ß", [("y",), ("shift", "z"), ("shift", "7"), ("alt_r", "7"), ("minus",)]),
        ("de", "^", [("grave",), ("space",)]),
        ("fr", "am1.@", [("q",), ("semicolon",), ("shift", "1"), ("shift", "comma"), ("alt_r", "0")]),
    ],
)
def test_where_characters_are(layout: str, text: str, typed: list[tuple[str, ...]]) -> None:
    assert strokes(text, layout) == typed


@pytest.mark.parametrize(
    ("layout", "text"), [("us", "caf\xe9"), ("de", "\u4e2d"), ("gb", "\x1b"), ("nl", "a")]
)
def test_what_cannot_be_typed_is_told_before(layout: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"can't type|no keyboard layout") as caught:
        strokes(text, layout)
    assert "caf" not in str(caught.value)
