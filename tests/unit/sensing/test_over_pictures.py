"""Text over pictures: menus of SYSLINUX, titles of the graphical installer, and pictures that hold neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.sensing.render import Console

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.observation import Observation
from reflexarc.sensing.console import OverlayReader
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.title import TitleReader

SCREENS = Path(__file__).parents[2] / "screens"
RECOGNISERS = load_recognisers()
DEBIAN = [
    "Debian GNU/Linux installer menu (BIOS mode)",
    "Install",
    "Advanced options                             >",
    "Accessible dark contrast installer menu      >",
    "Help",
]


def picture(name: str) -> Pixels:
    return load_frame(SCREENS / f"{name}.png").pixels


def look(pixels: Pixels) -> Observation:
    return Ladder(RECOGNISERS).read(Readings(at=0.0, frame=Frame(pixels, 0.0, 1)))


def words(pixels: Pixels) -> list[str]:
    screen = OverlayReader().read(pixels)
    return [] if screen is None else [line.strip() for line in screen.lines if line.strip()]


@pytest.mark.parametrize(
    ("name", "row", "entry"),
    [("isolinux_debian_menu", 11, DEBIAN[1]), ("isolinux_debian_menu_second", 12, DEBIAN[2])],
)
def test_the_menu_of_debian_media_is_read_with_its_highlight(name: str, row: int, entry: str) -> None:
    assert words(picture(name)) == DEBIAN
    seen = look(picture(name))
    assert (seen.phase, seen.complete) == ("grub_menu", True)
    assert seen.screen is not None
    assert [(at, text) for at, _, text in seen.screen.highlighted] == [(row, entry)]


def test_letters_that_are_blended_into_a_picture_are_read() -> None:
    found = words(picture("isolinux_vesa_menu"))
    assert found[0].strip("│ ") == "Installer boot menu"
    assert [line.strip("│ ") for line in found[1:]] == [
        "Install",
        "Rescue mode",
        "Press [Tab] to edit options",
    ]


def drawn(lines: list[str], paper: Pixels) -> Pixels:
    """White letters on a picture, in the cells of such a menu."""
    sheet = Console(font="8x16-rom", cell=(8, 16), size=(640, 480), origin=(8, 8), ink=0xFFFFFF).pixels(lines)
    return np.where(sheet != 0, sheet, paper).astype(np.uint32)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_every_letter_is_read_over_a_slope_of_light(step: int) -> None:
    paper = (np.add.outer(np.arange(480) * step // 8, np.arange(640) // 8) + 20).astype(
        np.uint32
    ) * np.uint32(0x10101)
    letters = "".join(map(chr, range(0x21, 0x7F)))
    lines = ["words of a menu", "", letters[:47], letters[47:], "", "more words here"]
    assert words(drawn([*lines[:2], *(f"abcd {line}" for line in lines[2:4]), *lines[4:]], paper)) == [
        lines[0], f"abcd {lines[2]}", f"abcd {lines[3]}", lines[5],
    ]  # fmt: skip


def test_a_picture_without_words_has_no_text() -> None:
    noise = np.random.default_rng(5).integers(0, 1 << 24, (480, 640)).astype(np.uint32)
    stripes = np.where(np.arange(480)[:, None] // 8 % 2, 0xFFFFFF, 0).repeat(640, axis=1).astype(np.uint32)
    for pixels in (noise, stripes, noise[:, :600]):
        assert OverlayReader().read(pixels) is None
        assert look(pixels).phase == "unknown"


def test_a_frame_is_read_again_only_where_it_changed() -> None:
    reader = OverlayReader()
    first = reader.read(picture("isolinux_debian_menu"))
    assert reader.read(picture("isolinux_debian_menu")) is first
    second = reader.read(picture("isolinux_debian_menu_second"))
    assert second is not None
    assert first is not None
    assert (first.lines, first.highlighted) != (second.lines, second.highlighted)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("language", "Select a language"),
        ("location", "Select your location"),
        ("partitioning", "Partition disks"),
        ("password", "Set up users and passwords"),
        ("keyboard", "Configure the keyboard"),
        ("software", "Software selection"),
        ("grub", "Install the GRUB boot loader"),
        ("error", "Installation step failed"),
        ("complete", "Finish the installation"),
    ],
)
def test_titles_of_the_graphical_installer_are_read(name: str, title: str) -> None:
    screen = TitleReader().read(picture(f"di_graphical_{name}"))
    assert screen is not None
    assert screen.text == title


def test_a_title_without_its_page_is_no_phase() -> None:
    page = picture("di_graphical_partitioning").copy()
    assert look(page).phase == "installer_partitioning"
    page[740:] = page[745, 640]
    seen = look(page)
    assert (seen.phase, seen.guess, seen.text) == ("unknown", None, "Partition disks")


def test_a_letter_that_is_not_known_leaves_no_title() -> None:
    page = picture("di_graphical_partitioning").copy()
    page[88:100, 30:36] ^= np.uint32(0xFFFFFF)
    assert TitleReader().read(page) is None
    assert look(page).phase == "unknown"
