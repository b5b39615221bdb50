"""The watcher over devices that the tests play: order, freshness, power changes, failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine

import pytest
from tests.unit.sensing.render import VGA, grub_menu

from reflexarc.errors import CapabilityError, ConnectionLostError
from reflexarc.machine.capabilities import Capabilities, PowerState
from reflexarc.machine.frame import Frame
from reflexarc.observation import Observation
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import KEPT_FRAMES, Watcher

RECOGNISERS = load_recognisers()
PATIENCE = 20.0
LOGIN = ["host login:"]


class PlayedScreen:
    """Shows what a test puts on it; frames have rising numbers."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.number = 0
        self._pushed: asyncio.Queue[Frame | Exception] = asyncio.Queue()

    def frame(self) -> Frame:
        self.number += 1
        return VGA.frame(self.lines, at=time.monotonic(), number=self.number)

    def push(self, lines: list[str]) -> Frame:
        self.lines = lines
        frame = self.frame()
        self._pushed.put_nowait(frame)
        return frame

    def fail(self, error: Exception) -> None:
        self._pushed.put_nowait(error)

    async def screenshot(self) -> Frame:
        return self.frame()

    async def frames(self) -> AsyncIterator[Frame]:
        while True:
            item = await self._pushed.get()
            if isinstance(item, Exception):
                raise item
            yield item

    def source(self) -> str:
        return "a test's screen"


class PlayedPower:
    """Power whose state a test sets."""

    def __init__(self, state: PowerState = PowerState.ON) -> None:
        self.now = state

    async def state(self) -> PowerState:
        return self.now

    async def on(self) -> None:
        self.now = PowerState.ON

    async def off(self) -> None:
        self.now = PowerState.OFF

    async def shutdown(self, timeout: float) -> None:
        self.now = PowerState.OFF

    async def reset(self) -> None:
        self.now = PowerState.ON

    async def cycle(self) -> None:
        self.now = PowerState.ON


class PlayedConsole:
    """A serial console that says what a test says."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[str] = asyncio.Queue()

    def say(self, text: str) -> None:
        self._said.put_nowait(text)

    async def read(self) -> str:
        return await self._said.get()

    async def write(self, data: str) -> None:
        raise AssertionError("nothing writes to a watched console")


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, PATIENCE))


def watching(capabilities: Capabilities) -> Watcher:
    return Watcher(capabilities, Ladder(RECOGNISERS), "lab1")


def test_each_pushed_frame_becomes_an_observation() -> None:
    async def scenario() -> None:
        screen = PlayedScreen([])
        async with watching(Capabilities(screen=screen)) as watcher:
            assert await watcher.next(None, 0) is None
            frame = screen.push(LOGIN)
            first = await watcher.next(None, PATIENCE)
            assert first is not None
            assert (first.phase, first.at, first.frame) == ("login_prompt", frame.captured, frame.number)
            assert await watcher.next(None, 0) is first
            screen.push([*LOGIN[:0], "root@host:~#"])
            second = await watcher.next(first, PATIENCE)
            assert second is not None
            assert second.phase == "shell_prompt"
            assert watcher.latest is second
            assert watcher.frame_of(first) is frame
            assert watcher.reads == {"text": 2}

    run(scenario())


def test_next_gives_none_when_nothing_new_comes_in_time() -> None:
    async def scenario() -> None:
        screen = PlayedScreen([])
        async with watching(Capabilities(screen=screen)) as watcher:
            assert await watcher.next(None, 0.01) is None
            screen.push(LOGIN)
            first = await watcher.next(None, PATIENCE)
            assert await watcher.next(first, 0.01) is None

    run(scenario())


def test_several_may_wait_for_the_same_news() -> None:
    async def scenario() -> None:
        screen = PlayedScreen([])
        async with watching(Capabilities(screen=screen)) as watcher:
            waiting = [asyncio.create_task(watcher.next(None, PATIENCE)) for _ in range(3)]
            screen.push(LOGIN)
            assert {found.phase for found in await asyncio.gather(*waiting) if found} == {"login_prompt"}

    run(scenario())


def test_fresh_takes_a_frame_after_the_call() -> None:
    async def scenario() -> None:
        screen, power = PlayedScreen(LOGIN), PlayedPower()
        async with watching(Capabilities(screen=screen, power=power)) as watcher:
            before = time.monotonic()
            first = await watcher.fresh()
            again = await watcher.fresh()
            assert first.phase == again.phase == "login_prompt"
            assert before <= first.at < again.at
            assert (first.rung, again.rung, again.origin) == ("text", "unchanged", "text")
            assert again.changed_at == first.changed_at

    run(scenario())


def test_fresh_on_a_machine_that_is_off_asks_for_no_picture() -> None:
    async def scenario() -> None:
        screen, power = PlayedScreen(LOGIN), PlayedPower(PowerState.OFF)
        async with watching(Capabilities(screen=screen, power=power)) as watcher:
            observation = await watcher.fresh()
            assert (observation.phase, observation.rung) == ("power_off", "power")
            assert screen.number == 0

    run(scenario())


def test_a_machine_with_nothing_to_look_at_says_so() -> None:
    async def scenario() -> None:
        async with watching(Capabilities(console=PlayedConsole())) as watcher:
            with pytest.raises(CapabilityError, match="lab1"):
                await watcher.fresh()

    run(scenario())


def test_power_that_goes_off_and_on_is_told_at_once() -> None:
    async def scenario() -> None:
        screen, power = PlayedScreen([]), PlayedPower()
        async with watching(Capabilities(screen=screen, power=power)) as watcher:
            screen.push(LOGIN)
            seen = await watcher.next(None, PATIENCE)
            while seen is None or seen.phase != "login_prompt":
                seen = await watcher.next(seen, PATIENCE)
            await power.off()
            off = await watcher.next(seen, PATIENCE)
            assert off is not None
            assert (off.phase, off.rung) == ("power_off", "power")
            screen.lines = ["SeaBIOS (version 1.16.2)"]
            await power.on()
            on = await watcher.next(off, PATIENCE)
            assert on is not None
            assert on.phase == "post_screen"

    run(scenario())


def test_serial_text_is_collected_and_recognised_without_a_screen() -> None:
    async def scenario() -> None:
        console = PlayedConsole()
        async with watching(Capabilities(console=console)) as watcher:
            console.say("Debian GNU/Linux 12\r\n")
            first = await watcher.next(None, PATIENCE)
            console.say("host login: ")
            second = await watcher.next(first, PATIENCE)
            assert second is not None
            assert (second.phase, second.rung) == ("login_prompt", "serial")
            assert second.serial == "Debian GNU/Linux 12\nhost login: "
            assert second.serial_end == len("Debian GNU/Linux 12\r\nhost login: ")

    run(scenario())


def test_an_error_of_the_device_ends_the_watching() -> None:
    async def scenario() -> None:
        screen = PlayedScreen([])
        error = ConnectionLostError("the display went away", machine="lab1")
        async with watching(Capabilities(screen=screen)) as watcher:
            waiting = asyncio.create_task(watcher.next(None, PATIENCE))
            screen.fail(error)
            with pytest.raises(ConnectionLostError, match="went away"):
                await waiting
            with pytest.raises(ConnectionLostError):
                await watcher.next(None, 0)
            with pytest.raises(ConnectionLostError):
                await watcher.fresh()

    run(scenario())


def test_only_recent_frames_are_kept() -> None:
    async def scenario() -> None:
        screen = PlayedScreen([])
        async with watching(Capabilities(screen=screen)) as watcher:
            last = None
            observations = []
            for number in range(KEPT_FRAMES + 3):
                screen.push([f"line {number} of a program"])
                last = await watcher.next(last, PATIENCE)
                assert last is not None
                observations.append(last)
            kept = [watcher.frame_of(observation) is not None for observation in observations]
            assert kept == [False] * 3 + [True] * KEPT_FRAMES

    run(scenario())


def test_an_older_frame_does_not_replace_a_newer_one() -> None:
    async def scenario() -> None:
        screen = PlayedScreen(LOGIN)
        async with watching(Capabilities(screen=screen)) as watcher:
            older = VGA.frame(["root@host:~#"], at=time.monotonic(), number=0)
            first = await watcher.fresh()
            screen._pushed.put_nowait(older)
            again = await watcher.next(first, PATIENCE)
            assert again is not None
            assert (again.phase, again.frame) == ("login_prompt", 1)

    run(scenario())


def test_the_menu_is_complete_when_the_watcher_sees_it_drawn() -> None:
    async def scenario() -> None:
        screen = PlayedScreen([])
        async with watching(Capabilities(screen=screen)) as watcher:
            screen._pushed.put_nowait(grub_menu(help_lines=False, highlight=False))
            half = await watcher.next(None, PATIENCE)
            screen._pushed.put_nowait(grub_menu())
            whole = await watcher.next(half, PATIENCE)
            assert half is not None
            assert whole is not None
            assert (half.complete, whole.complete) == (False, True)

    run(scenario())


def test_what_a_console_said_before_anybody_looked_disputes_nothing() -> None:
    async def scenario(before: str, later: str) -> str:
        console, screen = PlayedConsole(), PlayedScreen(LOGIN)
        console.say(before)
        async with watching(Capabilities(console=console, screen=screen)) as watcher:
            screen.push(LOGIN)
            latest: Observation | None = None
            while latest is None or latest.frame is None or not latest.serial:
                latest = await watcher.next(latest, PATIENCE)
            for _ in range(3):  # the watcher waits for more by then
                await asyncio.sleep(0)
            if later:
                console.say(later)
                while latest is not None and not latest.serial.endswith("syncing\n"):
                    latest = await watcher.next(latest, PATIENCE)
            seen = await watcher.fresh(doubting=True)
            assert seen.phase == "login_prompt"
            return seen.disputed

    panic = "---[ end Kernel panic - not syncing\r\n"
    assert asyncio.run(asyncio.wait_for(scenario(panic, ""), PATIENCE)) == ""
    assert asyncio.run(asyncio.wait_for(scenario("Hello\r\n", panic), PATIENCE)) == "crash_screen"
