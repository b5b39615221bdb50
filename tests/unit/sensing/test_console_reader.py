"""The exact reader: every font and grid, attributes, cursors, increments, and pictures that are no console."""

from __future__ import annotations

import string

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.unit.sensing.render import CONSOLES, FRAMEBUFFER, GRAPHICAL_GRUB, SMALL, VGA, Console

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.observation import ScreenText
from reflexarc.sensing.console import ConsoleReader
from reflexarc.sensing.console.glyphs import font, font_names, glyph_table, packed, wide_table

PRINTABLE = string.digits + string.ascii_letters + string.punctuation


def read(frame: Frame) -> ScreenText:
    screen = ConsoleReader().read(frame)
    assert screen is not None
    return screen


@pytest.mark.parametrize("console", CONSOLES.values(), ids=CONSOLES)
def test_every_printable_character_is_read_on_every_grid(console: Console) -> None:
    lines = ["", *(PRINTABLE[at : at + 40] for at in range(0, len(PRINTABLE), 40)), "  root@host:~# ls -la /"]
    screen = read(console.frame(lines))
    read_lines = [line for line in screen.lines if line]
    assert [line.strip() for line in read_lines] == [line.strip() for line in lines if line]
    assert screen.confidence == 1.0
    assert screen.highlighted == ()


def test_all_fonts_hold_the_printable_characters() -> None:
    for size in ((8, 8), (8, 14), (8, 16), (8, 18), (8, 19), (16, 32)):
        names = font_names(*size)
        assert names
        for name in names:
            assert set(PRINTABLE) <= set(font(name)), name


@pytest.mark.parametrize("size", [(8, 8), (8, 14), (8, 16), (16, 32)])
def test_the_ascii_of_each_font_is_read_by_the_tables_of_all(size: tuple[int, int]) -> None:
    for first in font_names(*size):
        table = glyph_table(first)
        for name in font_names(*size):
            for character in PRINTABLE:
                bits = font(name)[character]
                cell = np.packbits(~bits if bits[0, 0] else bits, axis=1).reshape(1, -1)
                assert chr(table.find(packed(cell))[0][0]) == character, (first, name)


@pytest.mark.parametrize("origin", [(0, 0), (3, 5), (7, 15), (2, 10)])
def test_a_graphical_terminal_is_found_at_any_origin(origin: tuple[int, int]) -> None:
    console = Console(font="8x16-uni", cell=(8, 16), size=(800, 600), origin=origin)
    lines = ["GNU GRUB  version 2.06", "", "grub> set root=(hd0,msdos1)", "grub> ls (hd0,msdos1)/boot"]
    assert [line for line in read(console.frame(lines)).lines if line] == [line for line in lines if line]


def test_box_drawing_and_latin_1_are_read_in_text_mode() -> None:
    lines = [
        "┌──────────────┐",
        "│ Zürich Straße│",
        "└──────────────┘",
        "the plain text of a screen ▒░█".rstrip("█"),
    ]
    assert [line for line in read(VGA.frame(lines)).lines if line] == lines


def test_reverse_video_is_reported_by_row_and_column() -> None:
    selected = frozenset((2, column) for column in range(3, 20))
    console = Console(inverted=selected)
    screen = read(console.frame(["The entries of a menu:", "", "   Second entry     ", "   Third entry"]))
    assert screen.highlighted == ((2, 3, "Second entry"),)
    assert screen.lines[2] == "   Second entry"


def test_an_underline_cursor_on_a_blank_is_no_character() -> None:
    for console in (VGA, FRAMEBUFFER):
        screen = read(console.frame(["host login:"], cursor=(0, 12)))
        assert screen.cursor == (0, 12)
        assert screen.lines[0] == "host login:"
        assert screen.confidence == 1.0


@pytest.mark.parametrize("letter", ["l", "g", "y", "W", ","])
def test_the_character_under_an_underline_cursor_is_read(letter: str) -> None:
    lines = [f"root@host:~# a{letter}b", "", "some more of plain text"]
    screen = read(VGA.frame(lines, cursor=(0, 14)))
    assert screen.lines[0] == lines[0]
    assert screen.cursor == (0, 14)


def test_a_block_cursor_is_found_and_the_character_in_it_read() -> None:
    lines = ["root@host:~# abc", "more text in this place"]
    for place in ((0, 14), (0, 16)):
        screen = read(FRAMEBUFFER.frame(lines, cursor=place, block=True))
        assert screen.cursor == place
        assert screen.lines[0] == lines[0]
        assert screen.highlighted == ()


def test_a_cursor_in_a_field_of_underscores_hides_one_of_them() -> None:
    screen = read(VGA.frame(["Hostname: debian______", "", "plain text below it"], cursor=(0, 16)))
    assert (screen.lines[0], screen.cursor) == ("Hostname: debian______", (0, 16))


def test_in_the_lowest_cells_an_underscore_after_the_text_is_the_cursor() -> None:
    lines = ["Debian GNU/Linux 12 host tty1", "root@host:~#"]
    screen = read(SMALL.frame([lines[0], lines[1] + " _"]))
    assert (list(screen.lines[:2]), screen.cursor) == (lines, (1, 13))
    named = read(SMALL.frame(["a_name of a file", "root@host:~# _"]))
    assert named.lines[1] == "root@host:~# _"


WIDE = "日本語 中文(简体) 한국어"


def with_wide_text(console: Console, lines: list[str], row: int, column: int) -> Pixels:
    """The lines, and a text in characters that take two cells where they are no ASCII."""
    pixels = console.pixels(lines)
    for character in WIDE:
        narrow = character < "\x7f"
        glyph = wide_glyph(character) if not narrow else font(console.font).get(character)
        if glyph is not None:
            x, y = console.origin[0] + column * 8, console.origin[1] + row * 16
            pixels[y : y + 16, x : x + glyph.shape[1]][glyph] = console.ink
        column += 1 if narrow else 2
    return pixels


def wide_glyph(character: str) -> npt.NDArray[np.bool_]:
    table = wide_table()
    at = int(np.flatnonzero(table.codes == ord(character))[0])
    bits = np.unpackbits(table.words[at].view(np.uint8)).astype(bool).reshape(16, 16)
    return np.logical_not(bits) if table.inverted[at] else bits


def test_characters_that_take_two_cells_are_read_as_one() -> None:
    lines = ["GNU GRUB  version 2.06", "", "", "Use the keys to select which entry is highlighted."]
    screen = read(Frame(with_wide_text(GRAPHICAL_GRUB, lines, 1, 4), 1.0, 1))
    assert screen.lines[1] == f"    {WIDE}"
    assert screen.lines[3] == lines[3]
    assert screen.confidence == 1.0


def test_a_screen_of_such_characters_alone_is_a_text_console() -> None:
    screen = read(Frame(with_wide_text(FRAMEBUFFER, [], 3, 8), 1.0, 1))
    assert screen.lines[3] == f"        {WIDE}"


def test_a_cell_that_no_font_explains_is_marked_and_lowers_the_confidence() -> None:
    pixels = VGA.pixels(["0123456789"])
    pixels[2:14:3, 1:8:2] ^= 0xAAAAAA
    screen = read(Frame(pixels, 1.0, 1))
    assert screen.lines[0] == "\ufffd123456789"
    assert screen.confidence == pytest.approx(0.9)


def test_a_changed_resolution_is_read_anew() -> None:
    reader = ConsoleReader()
    first = reader.read(VGA.frame(["in text mode now"]))
    second = reader.read(FRAMEBUFFER.frame(["on the framebuffer now"], number=2))
    assert first is not None
    assert second is not None
    assert (first.lines[0], second.lines[0]) == ("in text mode now", "on the framebuffer now")


def test_another_grid_at_the_same_resolution_is_found() -> None:
    reader = ConsoleReader()
    efi = Console(font="8x19-efi", cell=(8, 19), size=(1024, 768), origin=(192, 146))
    assert reader.read(efi.frame(["  UEFI Interactive Shell v2.2", "  Shell> reset"])) is not None
    screen = reader.read(FRAMEBUFFER.frame(["[    0.000000] Linux version 6.1"], number=2))
    assert screen is not None
    assert screen.lines[0] == "[    0.000000] Linux version 6.1"


Edit = tuple[int, int, str]
edits = st.lists(
    st.tuples(
        st.integers(1, 24), st.integers(0, 60), st.text(string.ascii_letters + " 0123456789", max_size=19)
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(edits)
def test_reading_increments_equals_reading_anew(changes: list[Edit]) -> None:
    lines = ["This line stays on the screen"] + [""] * 24
    reader = ConsoleReader()
    for number, (row, column, text) in enumerate(changes):
        padded = lines[row].ljust(80)
        lines[row] = (padded[:column] + text + padded[column + len(text) :]).rstrip()
        cursor = (row, column) if number % 2 else None
        frame = VGA.frame(lines, number=number, cursor=cursor)
        assert reader.read(frame) == ConsoleReader().read(frame)


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(
        np.uint32,
        st.tuples(st.integers(1, 90), st.integers(1, 90)),
        elements=st.sampled_from([0, 0xAAAAAA, 0xFFFFFF, 0x0000AA]),
    )
)
def test_no_picture_makes_the_reader_fail(pixels: Pixels) -> None:
    reader = ConsoleReader()
    for number in range(2):
        result = reader.read(Frame(pixels, 1.0, number))
        assert result is None or 0 <= result.confidence <= 1


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (7, 4000), (4000, 7), (641, 399), (160, 16), (2, 2000)])
def test_odd_sizes_of_noise_are_rejected(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(4).integers(0, 2, size, dtype=np.uint32) * 0xFFFFFF
    assert ConsoleReader().read(Frame(noise.astype(np.uint32), 1.0, 1)) is None


def test_a_picture_of_many_colours_is_rejected_and_stays_so_while_little_changes() -> None:
    picture = np.random.default_rng(5).integers(0, 1 << 24, (768, 1024)).astype(np.uint32)
    reader = ConsoleReader()
    assert reader.read(Frame(picture, 1.0, 1)) is None
    clock = picture.copy()
    clock[10:20, 900:940] = 0
    assert reader.read(Frame(clock, 2.0, 2)) is None
    screen = reader.read(FRAMEBUFFER.frame(["now it is a text console"], number=3))
    assert screen is not None
    assert screen.lines[0] == "now it is a text console"


@pytest.mark.parametrize("console", [VGA, FRAMEBUFFER], ids=["vga", "framebuffer"])
def test_the_first_short_text_after_a_blank_screen_is_read(console: Console) -> None:
    reader = ConsoleReader()
    reader.read(console.frame([]))
    screen = reader.read(console.frame(["", "", "sh#"], number=2))
    assert screen is not None
    assert screen.lines[2] == "sh#"


def test_a_frame_above_the_bound_is_not_read() -> None:
    huge = np.broadcast_to(np.uint32(0), (4100, 4000))
    assert ConsoleReader().read(Frame(huge, 1.0, 1)) is None
