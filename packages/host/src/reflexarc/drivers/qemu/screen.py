"""The screen: pushed by the D-Bus display, kept true by screendumps, polled where there is no push."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.display import Display
from reflexarc.drivers.qemu.picture import Picture
from reflexarc.drivers.qemu.power import power_state
from reflexarc.drivers.qemu.screendump import screendump
from reflexarc.drivers.qemu.tracking import CURSOR_HEIGHT, CURSOR_WIDTH, Check, Outcome, Tracker
from reflexarc.drivers.qemu.wire import Change
from reflexarc.errors import PeerProtocolError
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Frame
from reflexarc.machine.lock import FileLock

POLL_FAST, POLL_SLOW = 0.02, 0.25
# A screen that has not changed for so long is at rest and checked; one that never rests, once a second.
REST = 0.15
LONGEST_UNCHECKED = 1.0
_ASTRAY_GAP = 0.005
# The first change after so long a stillness is followed by a look soon after.
STILL, CHASE = 0.2, 0.005
_RETRY_PUSH = 2.0

_log = logging.getLogger("reflexarc.qemu")


class QemuScreen:
    """The machine's display; implements `Screen`. While it is off, frames carry `signal=False`.

    The display is watched from the first `frames()` on; one program at a time is pushed to, others poll.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._picture = Picture()
        self._tracker = Tracker(self._picture)
        self._powered = True
        self._pushes = False
        self._source = "screendump, on demand"
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._checking = False
        self._moved_at = 0.0
        self._unchecked_since: float | None = None
        self._viewers = 0
        self._viewed = asyncio.Event()

    async def screenshot(self) -> Frame:
        powered = await power_state(self._monitor) is PowerState.ON
        return self._picture.frame_of(await screendump(self._monitor), signal=powered)

    async def frames(self) -> AsyncGenerator[Frame, None]:
        if not self._tasks:
            self._spawn(self._follow_power(), "power")
        self._viewers += 1
        self._viewed.set()
        try:
            async with aclosing(self._picture.frames()) as frames:
                async for frame in frames:
                    yield frame
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._viewed.clear()

    def source(self) -> str:
        return self._source

    async def size(self) -> tuple[int, int]:
        """Width and height of the present picture."""
        if self._viewers and self._picture.size:
            return self._picture.size
        pixels = await screendump(self._monitor)
        return pixels.shape[1], pixels.shape[0]

    async def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"{self._monitor.peer.machine}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._picture.fail(error)

    async def _follow_power(self) -> None:
        """Note the power at every event about it; the flag goes up, too, when the connection is lost."""
        with self._monitor.watching("SHUTDOWN", "STOP", "RESUME", "RESET") as flag:
            self._powered = await power_state(self._monitor) is PowerState.ON
            self._pushes = await _offers_push(self._monitor)
            await self._check()
            self._spawn(self._watch(), "display")
            while True:
                await flag.wait()
                flag.clear()
                # Whatever stops and continues a machine, going back to a saved state too, may change its picture.
                self._powered = await power_state(self._monitor) is PowerState.ON
                self._check_in(0)

    async def _watch(self) -> None:
        while True:
            lock = FileLock(self._monitor.peer.folder / "display.lock")
            if not self._pushes or not lock.take():
                await self._poll()
                continue
            try:
                await self._push()
            except PeerProtocolError as error:
                _log.warning("%s; its screen is polled from now on", error)
            finally:
                lock.release()
            self._pushes = False

    async def _push(self) -> None:
        display = Display(self._monitor, self._on_changes)
        try:
            await display.open()
            self._source = "D-Bus display, pushed"
            self._check_in(0)
            await display.closed
        finally:
            display.close()

    async def _poll(self) -> None:
        """Poll while somebody watches, for good or until it is time to try for the display again."""
        self._source = "screendump, polled"
        interval = POLL_FAST
        until = time.monotonic() + _RETRY_PUSH
        while not self._pushes or time.monotonic() < until:
            await self._viewed.wait()
            changed = self._picture.replace(await screendump(self._monitor))
            if changed:
                self._picture.publish(signal=self._powered)
            busy = changed > CURSOR_WIDTH * CURSOR_HEIGHT
            interval = POLL_FAST if busy else min(interval * 1.5, POLL_SLOW)
            await asyncio.sleep(interval)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        outcome = self._tracker.take(changes)
        if outcome.changed and outcome.check is Check.AT_REST:
            now = time.monotonic()
            if now - self._moved_at > STILL:
                # What broke the stillness may be half drawn, and QEMU looks again only 30 ms later.
                outcome = replace(outcome, check=Check.SOON)
            self._moved_at = now
        self._act(outcome)

    def _act(self, outcome: Outcome) -> None:
        if outcome.changed:
            self._picture.publish_when_quiet()
        if outcome.check is Check.NOW:
            self._check_in(_ASTRAY_GAP if self._checking else 0)
        elif outcome.check is Check.SOON:
            self._check_in(CHASE)
        elif outcome.check is Check.AT_REST and not self._chasing():
            self._check_in(REST)

    def _chasing(self) -> bool:
        """Tell whether a look is due sooner than the screen could be at rest."""
        return self._timer is not None and self._timer.when() - asyncio.get_running_loop().time() <= CHASE

    def _check_in(self, delay: float) -> None:
        now = time.monotonic()
        self._unchecked_since = self._unchecked_since or now
        delay = max(0.0, min(delay, self._unchecked_since + LONGEST_UNCHECKED - now))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, self._check_now)

    def _check_now(self) -> None:
        self._timer = None
        if self._checking:
            self._check_in(_ASTRAY_GAP)
        else:
            self._spawn(self._check(), "screendump")

    async def _check(self) -> None:
        """Compare with a screendump, which is right; publishes a change of the power, too."""
        self._checking = True
        self._unchecked_since = None
        self._tracker.begin_dump()
        try:
            outcome = self._tracker.end_dump(await screendump(self._monitor))
        finally:
            self._checking = False
        if outcome.changed or self._powered != self._picture.signal:
            self._picture.publish(signal=self._powered)
        self._act(Outcome(changed=False, check=outcome.check))


async def _offers_push(monitor: Monitor) -> bool:
    options = await monitor.execute("query-display-options")
    return isinstance(options, dict) and options.get("type") == "dbus" and options.get("p2p") is True
