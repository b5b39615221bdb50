from __future__ import annotations

import asyncio
import time
from functools import partial

import numpy as np
import pytest
from tests.contract.rigs import Rig, bar, is_menu, shown, stroke

from reflexarc.machine.frame import Frame


def test_the_screen_is_followed_through_its_modes(menu: Rig) -> None:
    async def run() -> list[tuple[int, int]]:
        sizes = []
        async with menu() as machine:
            await machine.power.on()
            for key, width in (("", 720), ("g", 1024), ("t", 720)):
                if key:
                    await stroke(machine.keyboard, key)
                frame = await shown(machine.screen, partial(is_menu, width=width))
                sizes.append((frame.width, frame.height))
        return sizes

    assert asyncio.run(run()) == [(720, 400), (1024, 768), (720, 400)]


def test_every_reader_sees_the_present_frame_first_and_then_the_changes(menu: Rig) -> None:
    async def run() -> tuple[list[Frame], list[Frame]]:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))

            async def read() -> list[Frame]:
                seen: list[Frame] = []

                def wanted(frame: Frame) -> bool:
                    seen.append(frame)
                    return is_menu(frame, 1024)

                await shown(machine.screen, wanted)
                return seen

            both = asyncio.gather(read(), read())
            await asyncio.sleep(0)
            await stroke(machine.keyboard, "g")
            first, second = await both
            return first, second

    for frames in asyncio.run(run()):
        assert is_menu(frames[0], 720)
        numbers = [frame.number for frame in frames]
        assert numbers == sorted(set(numbers))
        captured = [frame.captured for frame in frames]
        assert captured == sorted(captured)


def test_a_screenshot_is_captured_after_the_call_and_numbered_after_earlier_frames(menu: Rig) -> None:
    async def run() -> tuple[Frame, float, Frame, float]:
        async with menu() as machine:
            await machine.power.on()
            frame = await shown(machine.screen, partial(is_menu, width=720))
            asked = time.monotonic()
            shot = await machine.screen.screenshot()
            return frame, asked, shot, time.monotonic()

    frame, asked, shot, answered = asyncio.run(run())
    assert asked <= shot.captured <= answered
    assert shot.number > frame.number
    assert bar(shot) == bar(frame)


def test_frames_are_colours_and_nobody_can_write_to_them(menu: Rig) -> None:
    async def run() -> tuple[Frame, Frame]:
        async with menu() as machine:
            await machine.power.on()
            frame = await shown(machine.screen, partial(is_menu, width=720))
            return frame, await machine.screen.screenshot()

    for frame in asyncio.run(run()):
        assert frame.pixels.dtype == np.uint32
        assert int(frame.pixels.max()) <= 0xFFFFFF
        with pytest.raises(ValueError, match="read-only"):
            frame.pixels[0, 0] = 1


def test_a_machine_that_is_off_has_no_signal(menu: Rig) -> None:
    async def run() -> list[bool]:
        async with menu() as machine:
            before = await shown(machine.screen, lambda frame: True)
            shot_before = await machine.screen.screenshot()
            await machine.power.on()
            on = await shown(machine.screen, lambda frame: frame.signal)
            await machine.power.off()
            off = await shown(machine.screen, lambda frame: not frame.signal)
            return [frame.signal for frame in (before, shot_before, on, off)]

    assert asyncio.run(run()) == [False, False, True, False]


def test_the_screen_says_how_its_frames_are_had(menu: Rig) -> None:
    async def run() -> str:
        async with menu() as machine:
            await shown(machine.screen, lambda frame: True)
            return machine.screen.source()

    assert asyncio.run(run()).strip()
