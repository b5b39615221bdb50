"""The reader and the recognisers on the screens that `guests.record` took of real guests, with their true text."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.text import TextRung

SCREENS = Path(__file__).parents[2] / "screens"
PHASES: dict[str, str | None] = json.loads((SCREENS / "phases.json").read_text())
TEXTS = sorted(path.stem for path in SCREENS.glob("*.txt"))
RECOGNISERS = load_recognisers()


def without_margins(text: str) -> str:
    """Text without blanks at the ends of lines and what surrounds it: firmware centres its consoles."""
    return textwrap.dedent("\n".join(line.rstrip() for line in text.split("\n"))).strip("\n")


def test_every_picture_has_its_phase_and_every_text_its_picture() -> None:
    pictures = {path.stem for path in SCREENS.glob("*.png")}
    assert pictures == set(PHASES)
    assert set(TEXTS) <= pictures
    assert {phase for phase in PHASES.values() if phase} <= set(RECOGNISERS.phases)


def test_the_screens_stay_small() -> None:
    assert sum(path.stat().st_size for path in SCREENS.iterdir()) < 3_000_000


@pytest.mark.parametrize("name", TEXTS)
def test_no_character_is_read_wrong(name: str) -> None:
    _, screen = TextRung(RECOGNISERS).page(load_frame(SCREENS / f"{name}.png"))
    assert screen is not None
    truth = (SCREENS / f"{name}.txt").read_text(encoding="utf-8")
    assert without_margins(screen.text) == without_margins(truth)
    assert screen.confidence == 1.0


@pytest.mark.parametrize("name", PHASES)
def test_each_phase_is_recognised(name: str) -> None:
    seen = Ladder(RECOGNISERS).read(Readings(at=0.0, frame=load_frame(SCREENS / f"{name}.png")))
    wanted = PHASES[name]
    if wanted is None:
        assert (seen.phase, seen.rung) == ("unknown", "none")
    else:
        assert RECOGNISERS.phases.is_a(seen.phase, wanted), seen.phase
        assert seen.confidence >= 0.8


def test_the_languages_of_the_installer_are_read_in_their_own_scripts() -> None:
    _, screen = TextRung(RECOGNISERS).page(load_frame(SCREENS / "di_framebuffer_language.png"))
    assert screen is not None
    for name in (
        "Chinese (Traditional) - 中文(繁體)",
        "Japanese - 日本語",
        "Korean - 한국어",
        "Czech - Čeština",
    ):
        assert any(name in " ".join(line.split()) for line in screen.lines), name
