"""Watching a machine: the I/O around the ladder. Newest evidence wins; there is no backlog."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from reflexarc.errors import CapabilityError, MachineError
from reflexarc.machine.accessibility import Ref, Selector
from reflexarc.machine.capabilities import Capabilities, Console, Power, PowerState, Screen
from reflexarc.machine.frame import Frame
from reflexarc.machine.geometry import Rect
from reflexarc.observation import UNKNOWN, Observation
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.needle import Patch
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.searching import TreeSearch
from reflexarc.sensing.serial import KEPT

POWER_INTERVAL = 0.5
KEPT_FRAMES = 8


class Watcher:
    """Watches one machine while its context is open: frames, serial text and its tree as they come, power at 2 Hz.

    latest: the newest observation, None before the first. reads: how many readings each rung decided.
    heard: told of serial text as it comes. shown: told of each frame with what was read in it.
    An error of a device ends the watching; `next` and `fresh` raise it from then on.
    """

    def __init__(self, capabilities: Capabilities, ladder: Ladder, machine: str) -> None:
        self.latest: Observation | None = None
        self.reads: Counter[str] = Counter()
        self.heard: Callable[[str], None] | None = None
        self.shown: Callable[[Observation, Frame], None] | None = None
        self._capabilities = capabilities
        self._ladder = ladder
        self._machine = machine
        self._power: PowerState | None = None
        self._frame: Frame | None = None
        self._frames: OrderedDict[int, Frame] = OrderedDict()
        self._serial = ""
        self._serial_end = 0
        self._serial_at = float("-inf")
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._asking_power = asyncio.Lock()
        tree = capabilities.accessibility
        self._search = TreeSearch(tree, ladder.recognisers, self._look_again) if tree else None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        sources = self._capabilities
        if sources.power:
            self._start(partial(self._watch_power, sources.power))
        if sources.screen:
            self._start(partial(self._watch_screen, sources.screen))
        if sources.console:
            self._start(partial(self._watch_console, sources.console))
        if self._search:
            self._start(self._search.watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self, after: Observation | None, timeout: float | None) -> Observation | None:
        """The newest observation that is not `after`, at once or as soon as there is one; None on timeout.

        Raises the MachineError with which a device ended the watching.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    if self._failure:
                        raise self._failure
                    if self.latest is not None and self.latest is not after:
                        return self.latest
                    await self._news.wait()
        except TimeoutError:
            return None

    async def fresh(self, *, doubting: bool = False) -> Observation:
        """Observe on evidence taken after this call: the power state and, unless it is off, a screenshot.

        What is sought in the guest's tree is looked for once more, unless its agent is known not to answer.
        doubting: ask every sensor, a screen that may be off too, and say where two of them disagree.
        Raises MachineError where a device fails; CapabilityError where there is neither power nor screen.
        """
        if self._failure:
            raise self._failure
        power, screen = self._capabilities.power, self._capabilities.screen
        if power is None and screen is None and self._search is None:
            raise CapabilityError(
                "there is neither a screen nor a power state nor a tree to look at; add a driver that has one",
                machine=self._machine,
                operation="observe.frames",
            )
        off = power is not None and await self._ask_power(power) is PowerState.OFF
        if self._search and (doubting or not off):
            seen = self.latest
            untold = seen is None or seen.phase == UNKNOWN or seen.origin == "accessibility"
            await self._search.fresh(doubting=doubting, phases=untold)
        if screen and not off:
            self._take(await screen.screenshot())
        elif screen and doubting:
            with suppress(MachineError):  # no frame is no news of a machine that is off
                self._take(await screen.screenshot())
        seen = self._observe()
        disputed = self._ladder.disputed(seen, self._readings()) if doubting else ""
        return replace(seen, disputed=disputed) if disputed else seen

    async def still(self, seconds: float, *, at_most: float) -> None:
        """Return once the screen has been still for so many seconds, or after `at_most`."""
        deadline = time.monotonic() + at_most
        seen = self.latest
        while seen is not None and (now := time.monotonic()) < min(seen.changed_at + seconds, deadline):
            seen = await self.next(seen, min(seen.changed_at + seconds, deadline) - now) or seen

    @property
    def has_lost(self) -> bool:
        """Whether an error of a device ended the watching."""
        return isinstance(self._failure, MachineError)

    @property
    def recognisers(self) -> Recognisers:
        """By what phases are recognised."""
        return self._ladder.recognisers

    def learn(self, recognisers: Recognisers) -> None:
        """Recognise by these from now on, and look again at what is seen already."""
        self._ladder.learn(recognisers)
        if self._search:
            self._search.learn(recognisers)
        if self.latest is not None and self.latest.frame is not None:
            self._observe()

    def seek(self, needles: Mapping[str, Patch], elements: Mapping[str, Selector] | None = None) -> None:
        """Look for these pictures and elements from now on; the screen is looked at again where a picture is new."""
        if self._search:
            self._search.seek(elements or {})
        new = needles.keys() - self._ladder.sought.keys()
        self._ladder.sought = needles
        if new and self.latest is not None and self.latest.frame is not None:
            self._observe()

    def told(self, ref: Ref) -> bool:
        """Tell whether a reference to an element was found in this watching."""
        return self._search is not None and self._search.told(ref)

    async def outline(self, most: int) -> str:
        """The outline of the application in front, cut to so many characters; empty where no agent answers."""
        return await self._search.outline(most) if self._search else ""

    def frame_of(self, observation: Observation) -> Frame | None:
        """The frame an observation was made on, None where there was none or it is no longer kept."""
        return None if observation.frame is None else self._frames.get(observation.frame)

    def cell(self, row: int, column: int) -> Rect | None:
        """The pixels of a character cell of the text in the newest observation, None where it has none."""
        return self._ladder.cell(row, column)

    def _start(self, watch: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(self._guarded(watch)))

    async def _guarded(self, watch: Callable[[], Awaitable[None]]) -> None:
        """Keep what ends the watching, a mistake of ours included, for those who wait for news."""
        try:
            await watch()
        except Exception as error:  # noqa: BLE001  # next() and fresh() raise it
            self._failure = self._failure or error
            self._tell()
            for task in self._tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    async def _watch_screen(self, screen: Screen) -> None:
        async for frame in screen.frames():
            self._take(frame)
            self._observe()

    async def _watch_console(self, console: Console) -> None:
        history = True
        while True:
            reading = asyncio.create_task(console.read())
            await asyncio.sleep(0)
            # What can be read without waiting was said before anybody looked, nobody knows when.
            history = history and reading.done()
            text = await reading
            if self.heard is not None:
                self.heard(text)
            self._serial = (self._serial + text)[-KEPT:]
            self._serial_end += len(text)
            if not history:
                self._serial_at = time.monotonic()
            self._observe()

    async def _watch_power(self, power: Power) -> None:
        while True:
            before = self._power
            state = await self._ask_power(power)
            if before is PowerState.OFF and state is not before and self._capabilities.screen:
                self._take(await self._capabilities.screen.screenshot())
            if state is not before:
                self._observe()
            await asyncio.sleep(POWER_INTERVAL)

    async def _ask_power(self, power: Power) -> PowerState:
        async with self._asking_power:
            state = await power.state()
            if self._power is PowerState.OFF and state is not PowerState.OFF:
                # What the machine showed and said before it was off is no evidence of this boot.
                self._frame = None
                self._serial = ""
            if self._search and (self._power is PowerState.OFF) is not (state is PowerState.OFF):
                self._search.forget()
            self._power = state
            return state

    def _take(self, frame: Frame) -> None:
        if self._frame is not None and frame.number < self._frame.number:
            return
        self._frame = frame
        self._frames[frame.number] = frame
        self._frames.move_to_end(frame.number)
        while len(self._frames) > KEPT_FRAMES:
            self._frames.popitem(last=False)

    def _readings(self) -> Readings:
        return Readings(
            at=time.monotonic(),
            power=self._power,
            frame=self._frame,
            serial=self._serial,
            serial_end=self._serial_end,
            serial_at=self._serial_at,
            tree=self._search.tree if self._search else None,
            elements=tuple(self._search.sightings.values()) if self._search else (),
            elements_changed_at=self._search.changed_at if self._search else float("-inf"),
            tree_moved_at=self._search.moved_at if self._search else float("-inf"),
        )

    def _look_again(self) -> None:
        """Conclude anew with what the guest's tree tells; not before anything else was seen."""
        if self.latest is not None or not (self._capabilities.screen or self._capabilities.power):
            self._observe()

    def _observe(self) -> Observation:
        observation = self._ladder.read(self._readings())
        self.latest = observation
        self.reads[observation.rung] += 1
        if self.shown is not None and self._frame is not None and observation.frame == self._frame.number:
            self.shown(observation, self._frame)
        self._tell()
        return observation

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
