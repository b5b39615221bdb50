"""The ladder: the order of its rungs, what counts as change, and what is repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.unit.sensing.render import FRAMEBUFFER, GRAPHICAL_GRUB, VGA, Console, grub_menu

from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Frame, Pixels
from reflexarc.observation import Observation
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers

RECOGNISERS = load_recognisers()
LOGIN = ("Debian GNU/Linux 12 host tty1", "", "host login:")
PROMPT = (2, 12)
BOTH = pytest.mark.parametrize("console", [VGA, FRAMEBUFFER, GRAPHICAL_GRUB], ids=["vga", "fb", "grub"])


class Watching:
    """A ladder that is shown frames, one each second."""

    def __init__(self) -> None:
        self.ladder = Ladder(RECOGNISERS)
        self.now = 0.0

    def sees(self, frame: Frame) -> Observation:
        self.now += 1.0
        shown = Frame(frame.pixels, self.now, int(self.now), frame.signal)
        return self.ladder.read(Readings(at=self.now + 0.01, power=PowerState.ON, frame=shown))


def uniform(colour: int) -> Frame:
    return Frame(np.full((480, 640), colour, np.uint32), 1.0, 1)


def test_power_comes_before_everything() -> None:
    evidence = Readings(at=9.0, power=PowerState.OFF, frame=grub_menu())
    observation = Ladder(RECOGNISERS).read(evidence)
    assert (observation.phase, observation.rung, observation.confidence) == ("power_off", "power", 1.0)
    assert (observation.complete, observation.at, observation.changed_at) == (True, 9.0, 9.0)


def test_a_missing_signal_comes_before_the_pixels() -> None:
    menu = grub_menu()
    observation = Ladder(RECOGNISERS).read(Readings(at=3.0, frame=Frame(menu.pixels, 2.0, 5, signal=False)))
    assert (observation.phase, observation.rung, observation.complete) == ("no_signal", "signal", True)


def test_an_unknown_power_state_decides_nothing() -> None:
    assert (
        Ladder(RECOGNISERS).read(Readings(at=1.0, power=PowerState.UNKNOWN, frame=grub_menu())).phase
        == "grub_menu"
    )


def test_nothing_known_is_the_phase_unknown() -> None:
    observation = Ladder(RECOGNISERS).read(Readings(at=1.0))
    assert (observation.phase, observation.rung, observation.confidence) == ("unknown", "none", 0.0)


@pytest.mark.parametrize("colour", [0, 0x0000AA])
def test_one_colour_is_blank(colour: int) -> None:
    observation = Watching().sees(uniform(colour))
    assert (observation.phase, observation.rung, observation.complete) == ("blank", "text", True)


def test_a_lone_cursor_is_blank_too() -> None:
    assert Watching().sees(VGA.frame([], cursor=(3, 0))).phase == "blank"


def test_an_identical_frame_repeats_the_phase_with_its_own_time() -> None:
    watching = Watching()
    first, second = watching.sees(grub_menu()), watching.sees(grub_menu())
    assert (first.rung, first.origin) == ("text", "text")
    assert (second.rung, second.origin, second.phase) == ("unchanged", "text", "grub_menu")
    assert (second.at, second.changed_at, second.frame) == (2.0, 1.0, 2)
    assert (second.confidence, second.complete, second.screen) == (first.confidence, True, first.screen)


def test_words_about_a_missing_signal_are_repeated_as_words() -> None:
    watching = Watching()
    placeholder = VGA.frame(["Guest has not initialized the display (yet)."])
    watching.sees(placeholder)
    repeated = watching.sees(placeholder)
    assert (repeated.rung, repeated.origin, repeated.phase) == ("unchanged", "text", "no_signal")


def test_unknown_is_never_repeated_from_memory() -> None:
    watching = Watching()
    frame = VGA.frame(["nothing that anybody knows"])
    assert [watching.sees(frame).rung for _ in range(2)] == ["none", "none"]
    assert watching.sees(frame).changed_at == 1.0


@BOTH
def test_a_blinking_underline_is_no_change(console: Console) -> None:
    watching = Watching()
    for cursor in (None, PROMPT, None, PROMPT, PROMPT, None):
        observation = watching.sees(console.frame(LOGIN, cursor=cursor))
        assert observation.phase == "login_prompt"
        assert observation.changed_at == 1.0
    assert observation.rung == "unchanged"


def test_a_blinking_block_is_no_change() -> None:
    watching = Watching()
    for cursor in (None, PROMPT, None, PROMPT):
        observation = watching.sees(FRAMEBUFFER.frame(LOGIN, cursor=cursor, block=True))
        assert (observation.phase, observation.changed_at) == ("login_prompt", 1.0)


def test_a_cursor_blinking_over_a_letter_is_no_change() -> None:
    watching = Watching()
    lines = (*LOGIN[:2], "host login: gray")
    for cursor in (None, (2, 12), None, (2, 12)):
        assert watching.sees(VGA.frame(lines, cursor=cursor)).changed_at == 1.0


@BOTH
@pytest.mark.parametrize("typed", ["r", "_", ".", "-"])
@pytest.mark.parametrize("seen_before", [None, PROMPT])
@pytest.mark.parametrize("seen_after", [None, (2, 13)])
def test_a_character_typed_where_the_cursor_was_is_a_change(
    console: Console, typed: str, seen_before: tuple[int, int] | None, seen_after: tuple[int, int] | None
) -> None:
    watching = Watching()
    watching.sees(console.frame(LOGIN, cursor=seen_before))
    typed_line = (*LOGIN[:2], "host login: " + typed)
    observation = watching.sees(console.frame(typed_line, cursor=seen_after))
    assert observation.changed_at == 2.0
    assert observation.phase != "login_prompt"
    assert observation.rung != "unchanged"


def test_a_cursor_that_moves_is_a_change() -> None:
    watching = Watching()
    watching.sees(VGA.frame(LOGIN, cursor=PROMPT))
    watching.sees(VGA.frame(LOGIN))
    assert watching.sees(VGA.frame(LOGIN, cursor=(2, 14))).changed_at == 3.0


def test_another_resolution_is_a_change() -> None:
    watching = Watching()
    watching.sees(VGA.frame(LOGIN))
    assert watching.sees(FRAMEBUFFER.frame(LOGIN)).changed_at == 2.0


def test_a_caret_blinking_in_a_graphical_picture_is_no_change() -> None:
    watching = Watching()
    picture = np.random.default_rng(6).integers(0, 1 << 24, (600, 800)).astype(np.uint32)
    picture[200:240, 100:300] = 0xFFFFFF
    caret = picture.copy()
    caret[210:228, 120:122] = 0
    for pixels in (picture, caret, picture, caret):
        observation = watching.sees(Frame(pixels, 1.0, 1))
        assert (observation.phase, observation.changed_at) == ("unknown", 1.0)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        arrays.arrays(
            np.uint32,
            st.tuples(st.integers(1, 70), st.integers(1, 70)),
            elements=st.sampled_from([0, 0xAAAAAA, 0xFFFFFF]),
        ),
        max_size=4,
    )
)
def test_no_picture_makes_the_ladder_fail(pictures: list[Pixels]) -> None:
    watching = Watching()
    for pixels in pictures:
        observation = watching.sees(Frame(pixels, 1.0, 1))
        assert observation.phase in RECOGNISERS.phases
        assert observation.at == watching.now


def test_after_power_was_off_the_same_picture_is_classified_again() -> None:
    ladder = Ladder(RECOGNISERS)
    rungs = [
        ladder.read(Readings(at=at, power=power, frame=grub_menu())).rung
        for at, power in ((1.0, PowerState.ON), (2.0, PowerState.OFF), (3.0, PowerState.ON))
    ]
    assert rungs == ["text", "power", "text"]


def test_without_a_screen_change_is_new_serial_text_or_power() -> None:
    ladder = Ladder(RECOGNISERS)
    changes = [
        ladder.read(Readings(at=at, power=power, serial=serial, serial_end=len(serial))).changed_at
        for at, power, serial in (
            (1.0, PowerState.ON, "a"),
            (2.0, PowerState.ON, "a"),
            (3.0, PowerState.ON, "ab"),
            (4.0, PowerState.OFF, "ab"),
            (5.0, PowerState.OFF, "ab"),
        )
    ]
    assert changes == [1.0, 1.0, 3.0, 4.0, 4.0]


def test_serial_text_is_bounded_and_plain_in_every_observation() -> None:
    text = "x" * 40_000 + "\x1b[31mred\x1b[0m\r\n"
    observation = Ladder(RECOGNISERS).read(
        Readings(at=1.0, frame=VGA.frame(LOGIN), serial=text, serial_end=len(text))
    )
    assert observation.serial.endswith("xred\n")
    assert len(observation.serial) <= 16_384
    assert observation.serial_end == len(text)
