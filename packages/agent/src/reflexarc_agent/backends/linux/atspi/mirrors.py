"""Mirrors of applications, kept current by their events."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import ANSWER, EXTENTS, Asking, Bounds, is_key
from reflexarc_agent.backends.linux.atspi.element import Element, Frame
from reflexarc_agent.backends.linux.atspi.placing import Placing
from reflexarc_agent.backends.linux.atspi.reading import Reading
from reflexarc_agent.backends.linux.atspi.sight import Sight
from reflexarc_agent.backends.linux.dbus.bus import Bus, Call, call_of
from reflexarc_agent.backends.linux.dbus.errors import DBusError
from reflexarc_agent.backends.linux.pictures import Area

MIRROR_AGE = 30.0
"""Seconds after which a mirror is read anew, for toolkits that keep a change to themselves."""

WINDOWS = 64
"""How many windows of an application are asked where they are."""

LEVELS, PARTS = 4, 8
"""How deep, and at how many parts of a window, is looked to tell it from its shadow."""

Place = Callable[[int, str], Optional[Area]]
"""Tells where the content of a process's window of a title is on the screen."""


class Mirrors:
    """Reads applications into their mirrors, and again what their events made stale."""

    def __init__(self, bus: Bus, bounds: Bounds, place: Optional[Place]) -> None:
        self._bus = bus
        self._bounds = bounds
        self._place = place

    async def current(self, app: Application, seconds: float = 5.0, patient: bool = True) -> None:
        """Bring an application's mirror up to date, within so many seconds; unless `patient`, not if it is hung."""
        if app.silent and app.hung:
            await asyncio.wait({app.silent}, timeout=seconds if patient else 0)
            if app.hung:
                return
        async with app.lock:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            if (
                app.read_at is None
                or begun - app.read_at > MIRROR_AGE
                or not await self._caught_up(app, seconds)
            ):
                await self._whole(app, seconds - (loop.time() - begun))
            elif app.behind:
                await self._parts(app, seconds)

    async def placed(self, app: Application, seconds: float = 5.0) -> None:
        """Learn the places and actions of all elements that show, where they aren't known."""
        async with app.lock:
            placing = Placing(app, self._bounds)
            await placing.look(seconds)
            app.capped = app.capped or placing.capped

    async def sighted(self, app: Application, seconds: float = 5.0) -> None:
        """Learn what is scrolled away, of toolkits that don't say so."""
        async with app.lock:
            await Sight(app, self._bounds).look(seconds)

    async def _whole(self, app: Application, seconds: float) -> None:
        reading = Reading(app, self._bounds)
        await reading.whole(seconds)
        await self._locate(app)
        app.window_frames = await self._window_frames(app, seconds)
        app.capped = reading.capped
        if reading.timed_out:
            app.late()
            if not app.root.children:
                app.suspect()
            return
        whole = await self._awake(app)
        app.read_at = asyncio.get_running_loop().time() if whole and app.root.children else None

    async def _awake(self, app: Application) -> bool:
        """Whether an application tells all it has; Chromium tells of its pages only once attributes were asked for."""
        if app.toolkit != "Chromium" or any(
            element.role == "document-web" for element in app.elements.values()
        ):
            return True
        asking = Asking(app, self._bounds)
        for element in [*app.elements.values()][:100]:
            for member in ("GetAttributes", "GetRelationSet"):
                asking.ask(element, (names.ACCESSIBLE, member), lambda _, value: None)
        await asking.finish(ANSWER)
        return False

    async def _locate(self, app: Application) -> None:
        """Learn where the windows begin on the screen, of an application that counts from there."""
        if not (app.from_window and self._place):
            return
        loop, origins = asyncio.get_running_loop(), {}
        for window in app.root.children[:WINDOWS]:
            place = await loop.run_in_executor(None, self._place, app.pid, window.name)
            inset = await self._inset(app, window, place) if place else None
            if place and inset:
                origins[window.key] = (place.x - inset[0], place.y - inset[1])
        app.stale_frames |= app.origins != origins
        app.origins = origins

    async def _inset(self, app: Application, window: Element, place: Area) -> Optional[tuple[int, int]]:
        """Where a window's content begins in what it counts from; None where nothing of it has the content's size.

        GTK 3 and Chromium count from the shadow that they draw around a window; what is in it has that size.
        A window that is just being resized tells another size than the compositor does.
        """
        if not app.wayland:
            return 0, 0
        level = [window]
        for _ in range(LEVELS):
            frames = [frame for frame in [await self._extents(app, part) for part in level] if frame]
            for frame in (*frames, *_around(frames)):
                if (frame.w, frame.h) == (place.w, place.h):
                    return frame.x, frame.y
            level = [below for part in level for below in part.children][:PARTS]
        return None

    async def _extents(self, app: Application, element: Element) -> Optional[Frame]:
        try:
            told = await app.ask(Call(*element.key, *EXTENTS, "u", app.extents_body), ANSWER)
        except DBusError:
            return None
        numbers = [edge for edge in told if isinstance(edge, int)] if isinstance(told, tuple) else []
        return Frame(*numbers) if len(numbers) == 4 and min(numbers[2:]) > 0 else None

    async def _place_strangers(self, app: Application) -> None:
        """Find the nearest ancestor in the mirror of each object that isn't there: its children are to be read."""
        for key in list(app.strangers):
            for _ in range(32):
                call = call_of(*key, names.PROPERTIES + ".Get", "ss", names.ACCESSIBLE, "Parent")
                try:
                    above = await app.ask(call, ANSWER)
                except DBusError:
                    break
                if not is_key(above) or above == app.root.key:
                    break
                if above in app.elements:
                    app.stale_children.add(above)
                    app.shift(above)
                    break
                key = above
        app.strangers.clear()

    async def _parts(self, app: Application, seconds: float) -> None:
        await self._place_strangers(app)
        if app.gecko:
            # Its windows lose the focus to what is in them without a word.
            app.stale.update(window.key for window in app.root.children[:WINDOWS])
        doubtful = app.doubtful - app.stale_children
        stale, grown, unsure = (app.known(found) for found in (app.stale, app.stale_children, doubtful))
        for done in (app.stale, app.stale_children, app.doubtful):
            done.clear()
        reading = Reading(app, self._bounds)
        await reading.parts(stale, grown, seconds, unsure)
        if reading.timed_out:
            app.late()

    async def _caught_up(self, app: Application, seconds: float) -> bool:
        """Ask the windows where they are, by the way events come: those sent before are in the mirror then."""
        await self._locate(app)
        windows = len(app.root.children[:WINDOWS])
        frames = await self._window_frames(app, seconds)
        app.stale_frames |= frames != app.window_frames
        app.window_frames = frames
        return len(frames) == windows

    async def _window_frames(self, app: Application, seconds: float) -> list[object]:
        """Where the windows are, as they say it themselves; those that answer in time."""
        asking = Asking(app, self._bounds)
        answered: list[Any] = []
        for window in app.root.children[:WINDOWS]:
            call = Call(*window.key, *EXTENTS, "u", names.SCREEN_BODY)
            asking.batch.post(self._bus, call, answered.append)
        await asking.finish(max(0.0, min(ANSWER, seconds)))
        return [answer[0] for answer in answered if isinstance(answer, tuple) and answer]


def _around(frames: list[Frame]) -> list[Frame]:
    """The frame around some, [] where there are none."""
    if not frames:
        return []
    left, top = min(frame.x for frame in frames), min(frame.y for frame in frames)
    right, bottom = max(frame.x + frame.w for frame in frames), max(frame.y + frame.h for frame in frames)
    return [Frame(left, top, right - left, bottom - top)]
