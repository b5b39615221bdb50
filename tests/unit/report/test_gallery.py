"""The gallery of a run: what it keeps, gives up and counts, and that it never fails the run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.played import ANSWERED, ASKED, PASSWORD, PLAYBOOK, STEPS, menu, script, text
from tests.unit.report.conftest import drive

from reflexarc.drivers.replay.script import Entry, Reaction
from reflexarc.machine.frame import Frame, pixels_of
from reflexarc.report.story import Story
from reflexarc.runs.artifacts import MAX_SERIAL, SerialLog
from reflexarc.runs.gallery import INDEX, WAITING_FRAMES, Gallery, encoded, read_index


def frames(count: int, *, side: int = 32) -> list[Frame]:
    """Noise, each frame another."""
    noise = np.random.default_rng(1).integers(0, 1 << 24, (count, side, side), dtype=np.uint32)
    return [Frame(pixels, 0.0, number) for number, pixels in enumerate(noise)]


def keep(gallery: Gallery, shown: list[Frame]) -> None:
    for frame in shown:
        gallery.note(float(frame.number), frame)
        gallery.finish()


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {INDEX}


def test_a_text_screen_is_kept_exactly(tmp_path: Path) -> None:
    frame = Frame(menu(1), 0.0, 1)
    gallery = Gallery(tmp_path)
    gallery.note(1.5, frame)
    gallery.finish()
    (kept,) = read_index(tmp_path).frames
    assert (kept.at, kept.width, kept.height) == (1.5, 720, 400)
    with Image.open(tmp_path / kept.ref) as image:
        assert np.array_equal(pixels_of(image), frame.pixels)


def test_equal_content_is_stored_once_and_indexed_each_time(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path)
    keep(gallery, [Frame(menu(n % 2), 0.0, n) for n in range(6)])
    index = read_index(tmp_path)
    assert [kept.at for kept in index.frames] == [0, 1, 2, 3, 4, 5]
    assert files(tmp_path) == {kept.ref for kept in index.frames}
    assert len(files(tmp_path)) == 2


def test_too_many_thin_out_the_past(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path, max_frames=20)
    keep(gallery, frames(60))
    index = read_index(tmp_path)
    assert len(index.frames) <= 20
    assert index.thinned == 60 - len(index.frames)
    assert index.dropped == 0
    times = [kept.at for kept in index.frames]
    assert (times[0], times[-3:]) == (0, [57, 58, 59])
    assert times == sorted(times)
    assert files(tmp_path) == {kept.ref for kept in index.frames}


def test_bytes_are_bounded_too(tmp_path: Path) -> None:
    size = len(encoded(frames(1, side=64)[0]))
    gallery = Gallery(tmp_path, max_bytes=10 * size)
    keep(gallery, frames(40, side=64))
    assert sum((tmp_path / name).stat().st_size for name in files(tmp_path)) <= 10 * size
    assert 4 <= len(read_index(tmp_path).frames) <= 10


def test_what_waits_is_bounded_and_counted(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path)
    for frame in frames(WAITING_FRAMES + 5):
        gallery.note(float(frame.number), frame)
    gallery.finish()
    index = read_index(tmp_path)
    assert (len(index.frames), index.dropped) == (WAITING_FRAMES, 5)


def test_a_later_process_goes_on_with_it(tmp_path: Path) -> None:
    first, second = frames(2)
    keep(Gallery(tmp_path), [first])
    keep(Gallery(tmp_path), [second])
    assert [kept.at for kept in read_index(tmp_path).frames] == [0, 1]


def test_a_huge_screen_is_scaled(tmp_path: Path) -> None:
    frame = Frame(np.zeros((100, 20_000), np.uint32), 0.0, 1)
    keep(Gallery(tmp_path), [frame])
    (kept,) = read_index(tmp_path).frames
    assert (kept.width, kept.height) == (20_000, 100)
    with Image.open(tmp_path / kept.ref) as image:
        assert image.size == (2560, 13)


def test_a_folder_that_is_gone_fails_nothing(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path / "gone")
    keep(gallery, frames(1))
    assert read_index(tmp_path / "gone").frames == ()


@pytest.mark.parametrize(
    "index", ["", "[]", "{", '{"frames": [{}]}', '{"frames": 3, "thinned": 0, "dropped": 0}']
)
def test_a_damaged_index_is_an_empty_one(tmp_path: Path, index: str) -> None:
    (tmp_path / INDEX).write_text(index)
    assert read_index(tmp_path).frames == ()


def test_a_run_keeps_a_frame_of_each_phase_on_screen(succeeded: Story) -> None:
    seen = [sight for step in succeeded.steps for sight in step.sights]
    on_screen = [sight for sight in seen if sight.observation.frame is not None]
    assert {"grub_menu", "login_prompt", "shell_prompt"} <= {sight.observation.phase for sight in on_screen}
    for sight in on_screen:
        assert sight.frame is not None, sight.observation.phase
        assert (succeeded.folder / sight.frame.ref).exists()
    menus = [sight.frame for sight in on_screen if sight.observation.phase == "grub_menu"]
    with Image.open(succeeded.folder / menus[0].ref) as image:  # type: ignore[union-attr]
        assert np.array_equal(pixels_of(image), menu(0))


def test_a_step_keeps_the_frame_that_it_decided_on(succeeded: Story) -> None:
    """The shell's prompt was there before; the answer that this step awaited came later."""
    step = next(step for step in succeeded.steps if step.step.name == "answer")
    assert step.decided is not None
    assert step.decided.frame is not None
    assert [sight.frame for sight in step.sights] == [step.decided.frame]
    with Image.open(succeeded.folder / step.decided.frame.ref) as image:
        assert np.array_equal(pixels_of(image), text(ANSWERED))


def test_a_step_keeps_the_frame_before_and_after_its_act(succeeded: Story) -> None:
    step = next(step for step in succeeded.steps if step.step.name == "second entry")
    kept = [
        sight.frame.ref for sight in step.sights if sight.observation.phase == "grub_menu" and sight.frame
    ]
    shown = []
    for ref in kept:
        with Image.open(succeeded.folder / ref) as image:
            shown.append(pixels_of(image))
    assert [np.array_equal(pixels, menu(n)) for n, pixels in enumerate(shown)] == [True, True]


def test_no_frame_with_a_secret_is_kept(tmp_path: Path) -> None:
    """The shell's first screen shows the password; it is a phase entered, and judged by the run."""
    leak = text([*ASKED[:-1], f"Password: {PASSWORD}", "root@lab:~#"])
    base = script().reactions
    enters = [r for r in base if r.key == "enter"]
    reactions = [
        *(r for r in base if r.key != "enter"),
        *enters[:2],
        Reaction((Entry(0.02, leak),), key="enter"),
    ]
    steps = [*STEPS[:5], {"name": "shell", "wait_for": "shell_prompt"}]
    story = drive(tmp_path, {**PLAYBOOK, "steps": steps}, script(reactions=tuple(reactions)))
    phases = {sight.observation.phase: sight.frame for step in story.steps for sight in step.sights}
    assert phases["login_prompt"] is not None
    assert phases["shell_prompt"] is None
    for path in story.folder.rglob("*.webp"):
        with Image.open(path) as image:
            assert not np.array_equal(pixels_of(image), leak)


def test_the_serial_log_is_kept_without_control_sequences(hostile: Story) -> None:
    kept = (hostile.folder / "serial.txt").read_text()
    assert kept.startswith("abred ]]> <script>")
    assert kept.endswith("end")


def test_the_serial_log_is_bounded_and_holds_no_part_of_a_secret(tmp_path: Path) -> None:
    log = SerialLog(tmp_path)
    for number in range(30_000):
        log.hear(f"{number:06} {PASSWORD[:5]}")
        log.hear(f"{PASSWORD[5:]} and more of the line\r\n")
    log.write(lambda said: said.replace(PASSWORD, "********"))
    written = (tmp_path / "serial.txt").read_text()
    assert 0.8 * MAX_SERIAL < len(written) <= MAX_SERIAL
    assert PASSWORD[5:] not in written
    assert written.splitlines()[-1] == "029999 ******** and more of the line"
    SerialLog(tmp_path).write(str)
    assert (tmp_path / "serial.txt").read_text() == written
    later = SerialLog(tmp_path)
    later.hear("resumed\r\n")
    later.write(str)
    assert (tmp_path / "serial.txt").read_text() == (written + "resumed\n")[-MAX_SERIAL:]


def test_the_index_says_what_is_there(succeeded: Story) -> None:
    index = json.loads((succeeded.folder / INDEX).read_text())
    assert (index["thinned"], index["dropped"]) == (0, 0)
    assert {frame["ref"] for frame in index["frames"]} == {
        path.name for path in succeeded.folder.glob("*.webp")
    }
