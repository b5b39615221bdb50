"""The video of a run: what is in it, how long each frame shows, what is left out, and that it stays bounded."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence
from tests.played import ANSWERED, ASKED, LOGIN, PASSWORD, PLAYBOOK, SHELL, STEPS, lab, menu, script, text

from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.machine.frame import Frame, Pixels, pixels_of
from reflexarc.observation import Observation
from reflexarc.runs.gallery import encoded
from reflexarc.runs.video import LEAST_GAP, VIDEO, WAITING_FRAMES, Video, want
from reflexarc.runs.webp import Still, animation, bitstream_of, stills_of

SEEN = Observation("shell_prompt", 1.0, "text", at=0.0, changed_at=0.0)


def recorded(folder: Path, frames: Sequence[tuple[float, Pixels]], *, began: float, ended: float) -> None:
    want(folder)
    video = Video(folder, lambda seen: False)
    video.begin(began)
    for number, (at, pixels) in enumerate(frames, 1):
        video.note(SEEN, Frame(pixels, at, number))
        video.develop(at + LEAST_GAP)
        video._settle()
    video.finish(ended)


def played(path: Path) -> list[tuple[Pixels, int]]:
    """Every frame of an animation as Pillow plays it, with the milliseconds that it shows."""
    with Image.open(path) as image:
        return [
            (pixels_of(frame.convert("RGB")), int(frame.info["duration"]))
            for frame in ImageSequence.Iterator(image)
        ]


def same(pixels: Pixels, other: Pixels) -> bool:
    return bool(np.array_equal(pixels, other))


def test_frames_are_exact_and_timed_as_they_came(tmp_path: Path) -> None:
    shown = [(10.0, menu(0)), (11.5, menu(1)), (11.8, text(LOGIN))]
    recorded(tmp_path, shown, began=10.0, ended=14.0)
    frames = played(tmp_path / VIDEO)
    assert [ms for _, ms in frames] == [1500, 300, 2200]
    assert all(same(pixels, wanted) for (pixels, _), (_, wanted) in zip(frames, shown, strict=True))


def test_a_later_process_goes_on_and_the_hold_is_left_out(tmp_path: Path) -> None:
    recorded(tmp_path, [(10.0, menu(0))], began=10.0, ended=11.0)
    recorded(tmp_path, [(490.0, menu(1)), (501.0, text(SHELL))], began=500.0, ended=503.0)
    assert [ms for _, ms in played(tmp_path / VIDEO)] == [1000, 1000, 2000]


def test_screens_of_several_sizes_share_a_canvas(tmp_path: Path) -> None:
    small = np.full((350, 640), 0x00FF00, np.uint32)
    recorded(tmp_path, [(0.0, menu(0)), (1.0, small), (2.0, menu(1))], began=0.0, ended=3.0)
    first, middle, last = (pixels for pixels, _ in played(tmp_path / VIDEO))
    assert first.shape == middle.shape == last.shape == (400, 720)
    assert same(middle[24:374, 40:680], small)
    assert same(last, menu(1))


def test_frames_in_quick_succession_are_one(tmp_path: Path) -> None:
    want(tmp_path)
    video = Video(tmp_path, lambda seen: False)
    video.begin(0.0)
    for number, at in enumerate((0.0, 0.02, 0.04, 0.5, 0.54), 1):
        video.note(SEEN, Frame(menu(number % 2), at, number))
    video.finish(1.0)
    frames = played(tmp_path / VIDEO)
    assert [ms for _, ms in frames] == [500, 460]
    assert same(frames[-1][0], menu(1))


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    want(tmp_path)
    video = Video(tmp_path, lambda seen: False)
    video.begin(0.0)
    for number in range(1, 100):
        video.note(SEEN, Frame(menu(number % 2), float(number), number))
    video.finish(100.0)
    frames = played(tmp_path / VIDEO)
    assert len(frames) == WAITING_FRAMES
    assert sum(ms for _, ms in frames) == 99_000


def test_too_much_thins_out_the_past(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 1 << 24, (60, 64, 64), dtype=np.uint32)
    size = len(encoded(Frame(noise[0], 0.0, 1)))
    want(tmp_path)
    video = Video(tmp_path, lambda seen: False, max_bytes=10 * size)
    video.begin(0.0)
    for number, pixels in enumerate(noise):
        video.note(SEEN, Frame(pixels, float(number), number))
        video.develop(number + 1.0)
        video._settle()
    video.finish(60.0)
    frames = played(tmp_path / VIDEO)
    assert (tmp_path / VIDEO).stat().st_size <= 11 * size
    assert 4 <= len(frames) <= 12
    assert sum(ms for _, ms in frames) == 60_000
    assert frames[-1][1] == 1000


def test_a_folder_that_is_gone_fails_nothing(tmp_path: Path) -> None:
    assert Video.of(tmp_path / "gone", lambda seen: False) is None
    video = Video(tmp_path / "gone", lambda seen: False)
    video.note(SEEN, Frame(menu(0), 0.0, 1))
    video.finish(1.0)
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\0\0\0\0WEBPANMF\xff\xff\xff\xff", b"x" * 100])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / VIDEO).write_bytes(content)
    recorded(tmp_path, [(0.0, menu(0))], began=0.0, ended=1.0)
    assert [ms for _, ms in played(tmp_path / VIDEO)] == [1000]


STILLS = [
    Still(bitstream_of(encoded(Frame(pixels, 0.0, 1))), pixels.shape[1], pixels.shape[0], 0.0)
    for pixels in (menu(0), np.zeros((8, 9), np.uint32), np.full((33, 1), 0xFF, np.uint32))
]


@given(st.lists(st.tuples(st.sampled_from(STILLS), st.integers(0, 10_000)), min_size=1, max_size=6))
def test_an_animation_comes_apart_into_its_stills(chosen: list[tuple[Still, int]]) -> None:
    stills = [Still(s.bitstream, s.width, s.height, ms / 1000) for s, ms in chosen]
    file = animation(stills)
    assert stills_of(file) == stills
    with Image.open(io.BytesIO(file)) as image:
        assert getattr(image, "n_frames", 1) == len(stills)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_stills_or_a_clear_error(junk: bytes, at: int) -> None:
    good = animation(STILLS)
    for file in (junk, b"RIFF\0\0\0\0WEBP" + junk, good[:at] + junk + good[at:], good[:-at] if at else good):
        with suppress(ValueError):
            assert stills_of(file)


def drive(
    root: Path, playbook: dict[str, object], it: ReplayScript | None = None, *, video: bool = True
) -> Path:
    async def run() -> str:
        async with lab(root, it) as opened:
            begun = await opened.session.begin(
                playbook, secret_values={"password": PASSWORD}, grant=["power.shutdown"], video=video
            )
            await begun.drive()
            begun.release()
            assert opened.session.watcher.shown is None
            return begun.id

    return root / "runs" / asyncio.run(run())


def test_a_run_is_recorded_where_that_is_asked(tmp_path: Path) -> None:
    frames = [pixels for pixels, _ in played(drive(tmp_path, PLAYBOOK) / VIDEO)]
    for wanted in (menu(0), text(LOGIN), text(ANSWERED)):
        assert any(same(pixels, wanted) for pixels in frames)
    assert not (drive(tmp_path / "without", PLAYBOOK, video=False) / VIDEO).exists()


def test_no_frame_with_a_secret_is_in_it(tmp_path: Path) -> None:
    leak = text([*ASKED[:-1], f"Password: {PASSWORD}", "root@lab:~#"])
    base = script().reactions
    enters = [r for r in base if r.key == "enter"]
    reactions = [
        *(r for r in base if r.key != "enter"),
        *enters[:2],
        Reaction((Entry(0.02, leak), Entry(0.6, text(SHELL))), key="enter"),
    ]
    steps = [*STEPS[:5], {"name": "shell", "wait_for": {"all": ["shell_prompt", {"text": "Password:$"}]}}]
    folder = drive(tmp_path, {**PLAYBOOK, "steps": steps}, script(reactions=tuple(reactions)))
    frames = [pixels for pixels, _ in played(folder / VIDEO)]
    assert any(same(pixels, text(SHELL)) for pixels in frames)
    assert not any(same(pixels, leak) for pixels in frames)
