"""Patches: pictures known by their likeness, on real screens and in files of phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reflexarc.errors import ConfigError
from reflexarc.machine import patch
from reflexarc.machine.frame import Frame, Pixels
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.needle import Patch, Region
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers

SCREENS = Path(__file__).parents[2] / "screens"
MENU = load_frame(SCREENS / "isolinux_vesa_menu.png").pixels
TITLE = MENU[22:42, 230:400]
FILE = Frame(np.ascontiguousarray(TITLE), 0.0, 1).png()


def png(pixels: Pixels) -> bytes:
    return Frame(np.ascontiguousarray(pixels), 0.0, 1).png()


@pytest.mark.parametrize(
    ("region", "seen"),
    [
        (None, True),
        (Region(200, 10, 260, 60), True),
        (Region(230, 22, 170, 20), True),
        (Region(-410, -458, 170, 20), True),
        (Region(231, 22, 170, 20), False),
        (Region(0, 240, 640, 240), False),
        (Region(600, 0, 400, 100), False),
        (Region(5000, 5000, 200, 100), False),
    ],
)
def test_a_patch_is_found_in_its_region_only(region: Region | None, seen: bool) -> None:
    assert Patch("title", FILE, region).is_on(MENU) is seen


def test_noise_of_a_capture_is_tolerated_and_other_words_or_colours_are_not() -> None:
    sought = Patch("title", FILE)
    noise = np.random.default_rng(1).integers(0, 12, MENU.shape).astype(np.uint32) * np.uint32(0x010101)
    assert sought.is_on((MENU & np.uint32(0xF0F0F0)) + noise)
    words = MENU.copy()
    words[22:42, 230:400] = np.roll(TITLE, 40, axis=1)
    assert not sought.is_on(words)
    inverted = MENU.copy()
    inverted[22:42, 230:400] ^= np.uint32(0xFFFFFF)
    assert not sought.is_on(inverted)
    tinted = MENU.copy()
    tinted[22:42, 230:400] = (TITLE & np.uint32(0x00FFFF)) | np.uint32(0xFF0000)
    assert not sought.is_on(tinted)


def test_a_plain_screen_shows_no_patch() -> None:
    assert not Patch("title", FILE).is_on(np.zeros((480, 640), np.uint32))
    assert not Patch("title", FILE).is_on(np.zeros((8, 8), np.uint32))


def test_a_patch_makes_a_phase(tmp_path: Path) -> None:
    (tmp_path / "title.png").write_bytes(FILE)
    (tmp_path / "own.yaml").write_text(
        "phases: {acme_menu: {}}\n"
        "needles: {title: {image: title.png, region: [200, 10, 260, 60], threshold: 0.9}}\n"
        "recognisers: [{phase: acme_menu, confidence: 0.99, evidence: [{needle: title}]}]\n"
    )
    recognisers = load_recognisers([tmp_path])
    for pixels, phase in ((MENU, "acme_menu"), (np.flipud(MENU), "unknown")):
        seen = Ladder(recognisers).read(Readings(at=0.0, frame=Frame(pixels, 0.0, 1)))
        assert (seen.phase, seen.rung) == (phase, "needle" if phase == "acme_menu" else "none")


@pytest.mark.parametrize(
    ("message", "needle"),
    [
        ("either a size", "{image: title.png, size: [1, 1]}"),
        ("in the folder", "{image: ../title.png}"),
        ("in the folder", "{image: /etc/passwd}"),
        ("No such file", "{image: none.png}"),
        ("no PNG picture", "{image: words.png}"),
        ("single colour", "{image: plain.png}"),
        ("has room", "{image: title.png, region: [0, 0, 10, 10]}"),
        ("from 0.5 to 1", "{image: title.png, threshold: 0.1}"),
    ],
)
def test_each_mistake_is_named_with_its_place(tmp_path: Path, message: str, needle: str) -> None:
    (tmp_path / "title.png").write_bytes(FILE)
    (tmp_path / "plain.png").write_bytes(png(np.zeros((20, 20), np.uint32)))
    (tmp_path / "words.png").write_text("words")
    (tmp_path / "own.yaml").write_text(f"# a comment\nneedles: {{title: {needle}}}\n")
    with pytest.raises(ConfigError, match=message) as caught:
        load_recognisers([tmp_path])
    assert (caught.value.path, caught.value.line) == (tmp_path / "own.yaml", 2)


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("no PNG", b""),
        ("no PNG", b"\x89PNG\r\n\x1a\n truncated"),
        ("larger than 128 KiB", b"\x89PNG" + bytes(patch.MAX_FILE)),
        ("too large", png(np.arange(2000, dtype=np.uint32).reshape(1, 2000).repeat(8, axis=0))),
        ("too small", png(np.arange(20, dtype=np.uint32).reshape(2, 10))),
        ("single colour", png(np.full((20, 20), 0x123456, np.uint32))),
    ],
)
def test_pictures_are_bounded(message: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=message):
        patch.decode(data)


def test_the_pixels_of_a_picture_are_those_that_were_drawn() -> None:
    assert (patch.decode(FILE) == TITLE).all()
