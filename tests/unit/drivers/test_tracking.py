from __future__ import annotations

import asyncio

import numpy as np
import pytest

from reflexarc.drivers.qemu.picture import Picture
from reflexarc.drivers.qemu.tracking import Check, Tracker
from reflexarc.drivers.qemu.wire import Change
from reflexarc.errors import ConnectionLostError
from reflexarc.machine.frame import Frame, Pixels


def plain(width: int, height: int, value: int = 0) -> Pixels:
    return np.full((height, width), value, np.uint32)


def whole(width: int, height: int, value: int) -> Change:
    return Change(0, 0, width, height, plain(width, height, value), whole=True)


def part(x: int, y: int, width: int, height: int, value: int = 1) -> Change:
    return Change(x, y, width, height, plain(width, height, value), whole=False)


def row(number: int, width: int = 720, value: int = 1) -> Change:
    return part(0, number * 16, width, 16, value)


@pytest.fixture
def picture() -> Picture:
    return Picture()


@pytest.fixture
def tracker(picture: Picture) -> Tracker:
    return Tracker(picture)


def dump(tracker: Tracker, pixels: Pixels) -> Check:
    tracker.begin_dump()
    return tracker.end_dump(pixels).check


def test_a_row_that_overflows_is_not_believed_until_a_dump(tracker: Tracker, picture: Picture) -> None:
    dump(tracker, plain(640, 480))
    outcome = tracker.take([row(0), row(1)])
    assert (outcome.changed, outcome.check) == (False, Check.NOW)
    assert not picture.copy().any()
    assert dump(tracker, plain(720, 400, 5)) is Check.NONE
    assert picture.size == (720, 400)


def test_narrow_rows_on_a_graphics_picture_mean_text_mode(tracker: Tracker, picture: Picture) -> None:
    tracker.take([whole(1024, 768, 9)])
    outcome = tracker.take([row(0)])
    assert (outcome.changed, outcome.check) == (False, Check.NOW)
    assert int(picture.copy().min()) == 9


def test_pieces_are_believed_once_a_dump_shows_the_size_they_fit(tracker: Tracker, picture: Picture) -> None:
    dump(tracker, plain(720, 400))
    assert tracker.take([part(9, 16, 9, 16)]).check is Check.NOW
    assert dump(tracker, plain(720, 400, 2)) is Check.NONE
    outcome = tracker.take([part(9, 16, 90, 16, 3)])
    assert (outcome.changed, outcome.check) == (True, Check.AT_REST)
    assert int((picture.copy() == 3).sum()) == 90 * 16


def test_rows_of_a_narrower_text_mode_are_seen_as_such(tracker: Tracker) -> None:
    dump(tracker, plain(720, 400))
    tracker.take([part(9, 16, 9, 16)])
    dump(tracker, plain(720, 400, 2))
    assert tracker.take([row(number, 640) for number in range(25)]).check is Check.NOW


def test_lines_of_one_length_that_are_replaced_are_no_other_mode(tracker: Tracker, picture: Picture) -> None:
    dump(tracker, plain(720, 400))
    tracker.take([part(9, 0, 639, 16)])
    dump(tracker, plain(720, 400))
    outcome = tracker.take([*(row(number, 639, 7) for number in range(3)), row(3, 711, 7)])
    assert (outcome.changed, outcome.check) == (True, Check.AT_REST)
    assert int(picture.copy()[60, 700]) == 7


def test_a_cursor_after_rows_of_a_narrower_text_mode_does_not_hide_it(tracker: Tracker) -> None:
    dump(tracker, plain(720, 400))
    tracker.take([part(9, 0, 639, 16)])
    dump(tracker, plain(720, 400))
    outcome = tracker.take([*(row(number, 640) for number in range(25)), part(8, 46, 8, 2)])
    assert outcome.check is Check.NOW


def test_a_whole_picture_is_believed_at_any_time(tracker: Tracker, picture: Picture) -> None:
    dump(tracker, plain(640, 480))
    tracker.take([row(0)])
    outcome = tracker.take([whole(1024, 768, 4)])
    assert (outcome.changed, outcome.check) == (True, Check.AT_REST)
    assert picture.size == (1024, 768)


def test_a_blinking_cursor_asks_for_no_dump(tracker: Tracker) -> None:
    dump(tracker, plain(720, 400))
    tracker.take([part(0, 0, 9, 16)])
    dump(tracker, plain(720, 400))
    outcome = tracker.take([part(9, 16, 9, 16, 6)])
    assert (outcome.changed, outcome.check) == (True, Check.NONE)


def test_the_same_pixels_again_are_no_change(tracker: Tracker) -> None:
    tracker.take([whole(1024, 768, 4)])
    outcome = tracker.take([part(0, 10, 1024, 20, 4), whole(1024, 768, 4)])
    assert not outcome.changed


def test_what_arrives_while_a_dump_is_made_is_not_undone_by_it(tracker: Tracker, picture: Picture) -> None:
    tracker.take([whole(1024, 768, 0)])
    tracker.begin_dump()
    tracker.take([part(0, 0, 1024, 10, 7)])
    tracker.end_dump(plain(1024, 768, 0))
    assert picture.copy()[:10].tolist() == plain(1024, 10, 7).tolist()
    assert not picture.copy()[10:].any()


def test_a_change_outside_the_screen_is_not_applied(tracker: Tracker, picture: Picture) -> None:
    tracker.take([whole(64, 64, 0)])
    for place in ((-1, 0), (0, -1), (0, 60)):
        assert tracker.take([part(*place, 64, 16)]).check is Check.NOW
        dump(tracker, plain(64, 64))
    assert not picture.copy().any()


def test_pixels_in_an_unread_form_ask_for_a_dump(tracker: Tracker) -> None:
    tracker.take([whole(64, 64, 0)])
    assert tracker.take([Change(0, 0, 0, 0, None, whole=True)]).check is Check.NOW


def test_a_slow_reader_gets_the_newest_frame(picture: Picture) -> None:
    async def run() -> list[Frame]:
        frames = picture.frames()
        seen = []
        for value in (1, 2, 3, 4):
            picture.replace(plain(8, 8, value))
            picture.publish()
            if value in (1, 4):
                seen.append(await anext(frames))
        return seen

    first, newest = asyncio.run(run())
    assert (int(first.pixels[0, 0]), int(newest.pixels[0, 0])) == (1, 4)
    assert first.number < newest.number


def test_a_lost_machine_ends_readers_that_wait_and_those_that_come(picture: Picture) -> None:
    lost = ConnectionLostError("gone", machine="guest")

    async def run() -> tuple[Frame | BaseException, ...]:
        waiting = asyncio.create_task(anext(picture.frames()))
        await asyncio.sleep(0)
        picture.fail(lost)
        return tuple(await asyncio.gather(waiting, anext(picture.frames()), return_exceptions=True))

    assert asyncio.run(run()) == (lost, lost)
