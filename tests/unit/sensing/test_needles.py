"""Needles: exact pictures in the middle of the screen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.sensing.render import EFI

from reflexarc.errors import ConfigError
from reflexarc.machine.frame import Frame, Pixels
from reflexarc.observation import Observation
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.needle import digest, middle
from reflexarc.sensing.recognise import load_recognisers

LOGO = np.random.default_rng(7).integers(0, 1 << 24, (40, 100)).astype(np.uint32)


def with_logo(pixels: Pixels, *, shift: int = 0) -> Pixels:
    place = middle(pixels, 100, 40)
    assert place is not None
    drawn = pixels.copy()
    drawn[place.y : place.y + 40, place.x + shift : place.x + shift + 100] = LOGO
    return drawn


@pytest.fixture
def ladder(tmp_path: Path) -> Ladder:
    blank = np.zeros((800, 1280), np.uint32)
    drawn = with_logo(blank)
    place = middle(drawn, 100, 40)
    assert place is not None
    (tmp_path / "acme.yaml").write_text(
        "phases: {acme_splash: {}}\n"
        f"needles: {{acme: {{size: [100, 40], digest: '{digest(drawn, place)}'}}}}\n"
        "recognisers: [{phase: acme_splash, confidence: 0.85, evidence: [{needle: acme, alone: true}]}]\n"
    )
    return Ladder(load_recognisers([tmp_path]))


def look(ladder: Ladder, pixels: Pixels) -> Observation:
    return ladder.read(Readings(at=0.0, frame=Frame(pixels, 0.0, 1)))


def test_a_needle_alone_names_the_phase_by_its_own_rung(ladder: Ladder) -> None:
    for size in ((800, 1280), (768, 1024), (601, 801)):
        seen = look(ladder, with_logo(np.zeros(size, np.uint32)))
        assert (seen.phase, seen.rung, seen.confidence) == ("acme_splash", "needle", 0.85)


def test_a_needle_that_is_moved_or_changed_by_one_pixel_is_not_seen(ladder: Ladder) -> None:
    blank = np.zeros((800, 1280), np.uint32)
    changed = with_logo(blank)
    changed[400, 640] ^= 1
    for pixels in (with_logo(blank, shift=1), changed):
        assert look(ladder, pixels).phase == "unknown"


def test_progress_at_the_lower_edge_leaves_a_needle_alone_and_a_spinner_does_not(ladder: Ladder) -> None:
    blank = np.zeros((800, 1280), np.uint32)
    for y, phase in ((760, "acme_splash"), (560, "unknown")):
        pixels = with_logo(blank)
        pixels[y : y + 20, 600:630] = 0xFFFFFF
        assert look(ladder, pixels).phase == phase


def test_text_beside_a_needle_is_read_and_tells_more(ladder: Ladder) -> None:
    seen = look(ladder, with_logo(EFI.pixels([">>Start PXE over IPv4."])))
    assert (seen.phase, seen.rung) == ("pxe_boot", "text")
    assert ">>Start PXE over IPv4." in seen.text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("needs 'digest'", "needles: {one: {size: [4, 4]}}\n"),
        ("two numbers", "needles: {one: {size: [4], digest: '0'}}\n"),
        ("of a megapixel", "needles: {one: {size: [4000, 4000], digest: '0'}}\n"),
        ("32 hexadecimal digits", "needles: {one: {size: [4, 4], digest: 'xyz'}}\n"),
        ("declared twice", f"needles:\n  tianocore_logo: {{size: [4, 4], digest: '{'0' * 32}'}}\n"),
        ("no needle 'two'", "recognisers: [{phase: booting, evidence: [{needle: two}]}]\n"),
        ("alone beside it", "recognisers: [{phase: booting, evidence: [{needle: two, count: 2}]}]\n"),
    ],
)
def test_mistakes_in_needles_are_named(tmp_path: Path, message: str, text: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recognisers([tmp_path])
