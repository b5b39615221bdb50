"""The reader and the recognisers on real screens with exact truth; needs the data set beside the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from reflexarc.machine.frame import Frame, pixels_of
from reflexarc.sensing.console import ConsoleReader
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers

SCREENS = Path(__file__).parents[4] / "shared" / "screens" / "boot"
NAMES = sorted(path.stem for path in SCREENS.glob("*.png"))
pytestmark = pytest.mark.skipif(not NAMES, reason="the screens beside the repository are absent")

# Where a picture shows another phase than its label says: 10 is GRUB's command line (its text equals that of 08),
# on 14 the login prompt already stands below the kernel's messages, 31 is black.
SHOWN = {"10_grub_text_edit": "grub_cmdline", "14_linux_boot_text": "login_prompt", "31_uefi_setup": "blank"}
GRAPHICAL = {"38_ovmf_splash", "46_di_gtk_1"}
EXACT = ("vga", "vcs")


def frame(name: str) -> Frame:
    return Frame(pixels_of(Image.open(SCREENS / f"{name}.png")), 1.0, 1)


def facts(name: str) -> dict[str, object]:
    loaded = json.loads((SCREENS / f"{name}.json").read_text())
    assert isinstance(loaded, dict)
    return loaded


def words(text: str) -> str:
    """Text without rules and layout: for truth that has neither."""
    plain = "".join(" " if "─" <= character <= "▟" else character for character in text)
    return " ".join(plain.split())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in GRAPHICAL | {"31_uefi_setup"}])
def test_no_character_is_read_wrong(name: str) -> None:
    screen = ConsoleReader().read(frame(name))
    assert screen is not None
    truth = (SCREENS / f"{name}.txt").read_text()
    if facts(name)["truth"] in EXACT:
        assert screen.text.rstrip("\n") == "\n".join(line.rstrip() for line in truth.split("\n")).rstrip("\n")
    else:
        assert words(screen.text) == words(truth)
    assert screen.confidence == 1.0


@pytest.mark.parametrize("name", sorted(GRAPHICAL))
def test_graphical_screens_are_rejected(name: str) -> None:
    assert ConsoleReader().read(frame(name)) is None


@pytest.mark.parametrize("name", NAMES)
def test_the_cursor_is_where_the_video_card_has_it(name: str) -> None:
    screen, cursor = ConsoleReader().read(frame(name)), facts(name).get("cursor")
    if screen is not None and screen.cursor is not None and isinstance(cursor, list):
        assert screen.cursor == (cursor[1], cursor[0])


@pytest.mark.parametrize("name", [name for name in NAMES if "attrs" in facts(name)])
def test_highlights_are_the_cells_of_another_paper_colour(name: str) -> None:
    attributes = facts(name)["attrs"]
    assert isinstance(attributes, list)
    screen = ConsoleReader().read(frame(name))
    assert screen is not None
    papers = [[row[at] for at in range(0, len(row), 2)] for row in attributes]
    flat = [paper for row in papers for paper in row]
    rare = {paper for paper in set(flat) if flat.count(paper) < 0.15 * len(flat)}
    for row, line in enumerate(screen.lines):
        expected = {at for at, mark in enumerate(line) if mark != " " and papers[row][at] in rare}
        found = {
            start + at
            for line_of, start, text in screen.highlighted
            if line_of == row
            for at, mark in enumerate(text)
            if mark != " "
        }
        assert found == expected


@pytest.mark.parametrize("name", [name for name in NAMES if name not in GRAPHICAL])
def test_each_screen_is_recognised(name: str) -> None:
    recognisers = load_recognisers()
    phases = json.loads((SCREENS / "phases.json").read_text())
    observation = Ladder(recognisers).read(Readings(at=1.0, frame=frame(name)))
    assert recognisers.phases.is_a(observation.phase, SHOWN.get(name, phases[name]))
    assert observation.confidence >= 0.8


def test_the_logo_of_the_firmware_is_recognised_by_its_needle() -> None:
    observation = Ladder(load_recognisers()).read(Readings(at=1.0, frame=frame("38_ovmf_splash")))
    assert (observation.phase, observation.rung, observation.screen) == ("post_screen", "needle", None)


def test_the_graphical_installer_is_recognised_by_its_title() -> None:
    observation = Ladder(load_recognisers()).read(Readings(at=1.0, frame=frame("46_di_gtk_1")))
    assert (observation.phase, observation.rung, observation.text) == (
        "installer_language",
        "needle",
        "Select a language",
    )
