"""One application: how it is reached, and the mirror of its tree."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Optional

from reflexarc_agent.backends.linux.atspi.batch import Batch
from reflexarc_agent.backends.linux.atspi.element import SHOWING, VISIBLE, Element, Frame, Key
from reflexarc_agent.backends.linux.atspi.names import ACCESSIBLE, ROOT_PATH, SCREEN_BODY, WINDOW_BODY
from reflexarc_agent.backends.linux.dbus.bus import Bus, Call, Result
from reflexarc_agent.backends.linux.dbus.errors import BusConnectError, DBusError

LINES = 8
PATIENCE, PATIENCE_MOST = 1.0, 16.0
"""Seconds that a wait gives an application to be read: twice as many after each time that weren't enough."""

SILENCE = 600.0


@dataclass(eq=False)
class Application:
    """An application on the accessibility bus; `peer` is a straight connection, where it offers one at `address`.

    Acting has connections of its own: one that is inside of an action (a modal dialog) answers nothing else.
    """

    owner: str
    bus: Bus
    name: str = ""
    pid: int = 0
    toolkit: str = ""
    version: str = ""
    address: str = ""
    peer: Optional[Bus] = None
    wayland: bool = False

    def __post_init__(self) -> None:
        self.lines: list[Bus] = []
        self.lock = asyncio.Lock()
        self.silent: Optional[asyncio.Future[None]] = None
        self.root = Element((self.owner, ROOT_PATH))
        self.elements: dict[Key, Element] = {}
        self.read_at: Optional[float] = None
        self.capped: Optional[str] = None
        self.stale: set[Key] = set()
        self.stale_children: set[Key] = set()
        self.doubtful: set[Key] = set()
        self.strangers: set[Key] = set()
        self.shifted: set[Key] = set()
        self.moved: set[Key] = set()
        self._stale_frames = False
        self.layouts = 0
        self.reading = 0
        self.unseen: set[Key] = set()
        self.probes: list[Element] = []
        self.sight: Optional[tuple[object, ...]] = None
        self.events = 0
        self.reads = 0
        self.window_events = 0
        self.origins: dict[Key, tuple[int, int]] = {}
        self.window_frames: list[object] = []
        self.patience = PATIENCE
        self.unmade: dict[Key, int] = {}

    @property
    def hung(self) -> bool:
        """Whether it left a question unanswered, and has given no sign of life since."""
        return self.silent is not None and not self.silent.done()

    @property
    def unknown(self) -> bool:
        """Whether its mirror lacks what wasn't read in time: what isn't there may be in the application."""
        return self.hung or (self.read_at is None and self.capped == "time")

    def late(self) -> None:
        """Take note that it wasn't read in time, and has to be read from its root, with more patience."""
        self.read_at = None
        self.capped = "time"
        self.patience = min(2 * self.patience, PATIENCE_MOST)

    def suspect(self) -> None:
        """Take note that it didn't answer; until it answers this one question nobody waits for it again."""
        if not self.hung:
            self.silent = asyncio.ensure_future(self._sign_of_life())

    async def _sign_of_life(self) -> None:
        with contextlib.suppress(DBusError):
            await self.ask(Call(*self.root.key, ACCESSIBLE, "GetRole"), SILENCE)

    @property
    def stale_frames(self) -> bool:
        """Whether anything may be elsewhere than was read; `layouts` counts how often something was."""
        return self._stale_frames

    @stale_frames.setter
    def stale_frames(self, stale: bool) -> None:
        self._stale_frames = stale
        self.layouts += stale

    def shift(self, key: Key, alone: bool = False) -> None:
        """Take note that what is in an element, beside it or beside its ancestors may be elsewhere.

        With `alone` only the element itself, and what is in it if it is.
        """
        (self.moved if alone else self.shifted).add(key)
        self.layouts += 1

    @property
    def gecko(self) -> bool:
        """Firefox gives no text at all where more is asked for than there is, or where it was asked for first."""
        return self.toolkit == "Gecko"

    @property
    def overstates(self) -> bool:
        """Whether it says "showing" of what is scrolled away."""
        return self.gtk4 or self.toolkit == "Qt"

    @property
    def gtk3(self) -> bool:
        """GTK 3 tells of each element that gets another place in its window."""
        return self.toolkit.lower() == "gtk" and self.version.split(".")[0] == "3"

    @property
    def gtk4(self) -> bool:
        """GTK 4 fills its cache only when walked, sets "showing" on windows alone, and counts from its window."""
        return self.toolkit.lower() == "gtk" and self.version.split(".")[0] == "4"

    @property
    def browser(self) -> bool:
        """Browsers take text by keystrokes only, whatever they answer."""
        return self.toolkit in ("Chromium", "Gecko", "WebKitGTK", "WebKitGtk")

    @property
    def from_window(self) -> bool:
        """Whether it counts from its windows: who is on Wayland isn't told where these are."""
        return self.gtk4 or self.wayland

    @property
    def extents_body(self) -> bytes:
        """What GetExtents is asked for: on Wayland places in the window, which are the same for every toolkit."""
        return WINDOW_BODY if self.wayland else SCREEN_BODY

    def frame(self, element: Element, value: object) -> Optional[Frame]:
        """The frame that GetExtents told; None where the element has no size, or its window's place isn't known."""
        if not (isinstance(value, tuple) and len(value) == 4 and value[2] > 0 and value[3] > 0):
            return None
        origin = self._origin(element) if self.from_window else (0, 0)
        if origin is None:
            return None
        x, y = origin
        return Frame(value[0] + x, value[1] + y, value[2], value[3])

    def _origin(self, element: Element) -> Optional[tuple[int, int]]:
        """Where an element's window begins; of an element that stands alone, where the only window does."""
        window = element
        for above in element.ancestors():
            if above.key != self.root.key:
                window = above
        if window.key in self.origins:
            return self.origins[window.key]
        alone = len(self.origins) == 1 and window.parent is None
        return next(iter(self.origins.values())) if alone else None

    def shows(self, element: Element) -> bool:
        """Whether the element says that it is on the screen."""
        return bool(element.states & (VISIBLE | SHOWING if self.gtk4 else SHOWING))

    def post(self, batch: Batch, call: Call, tell: Callable[[Result], None]) -> None:
        """Send a reading call by the fastest way."""
        if self.peer and not self.peer.closed and call.destination == self.owner:
            batch.post(self.peer, Call("", *call[1:]), tell)
        else:
            batch.post(self.bus, call, tell)

    async def ask(self, call: Call, timeout: float) -> Any:
        """The first value of the answer to a reading call, None where it has none; raises as `Bus.call` does."""
        if self.peer and not self.peer.closed and call.destination == self.owner:
            answer = await self.peer.call(Call("", *call[1:]), timeout)
        else:
            answer = await self.bus.call(call, timeout)
        return answer[0] if answer else None

    async def line(self) -> Bus:
        """A connection to act through, on which no action is under way."""
        self.lines = [line for line in self.lines if not line.closed]
        for line in self.lines:
            if not line.busy:
                return line
        if not self.address or len(self.lines) >= LINES:
            return self.bus
        try:
            line = await Bus.connect(self.address, peer=True)
        except BusConnectError:
            return self.bus
        self.lines.append(line)
        return line

    def close(self) -> None:
        """End the straight connections."""
        if self.silent:
            self.silent.cancel()
        for bus in (self.peer, *self.lines):
            if bus:
                bus.close()

    def plant(self) -> Element:
        """Begin the mirror anew, with its root alone."""
        self.root = Element(self.root.key)
        self.elements = {self.root.key: self.root}
        self.stale.clear()
        self.stale_children.clear()
        self.doubtful.clear()
        self.strangers.clear()
        self.unmade.clear()
        self.shifted.clear()
        self.moved.clear()
        self.stale_frames = False
        self.capped = None
        self.reading += 1
        self.unseen.clear()
        return self.root

    def known(self, keys: Iterable[Key]) -> list[Element]:
        """Those of some elements that are in the mirror."""
        return [self.elements[key] for key in keys if key in self.elements]

    def displace(self) -> None:
        """Forget where everything is."""
        self.stale_frames = False
        self.root.told = None
        for element in self.elements.values():
            element.placed = False

    def unplaced(self) -> list[Element]:
        """The elements that show, and whose place isn't known."""
        if self.root.told is not None:
            return []  # they were looked for then
        showing = VISIBLE | SHOWING if self.gtk4 else SHOWING
        return [
            element for element in self.elements.values() if not element.placed and element.states & showing
        ]

    @property
    def behind(self) -> bool:
        """Whether events have told of something that isn't read yet."""
        return bool(self.stale or self.stale_children or self.doubtful or self.strangers)

    def drop(self, element: Element) -> None:
        """Take an element and what is below it out of the mirror."""
        for gone in element.walk():
            self.elements.pop(gone.key, None)
            self.stale.discard(gone.key)
            self.stale_children.discard(gone.key)
            self.doubtful.discard(gone.key)
            self.unseen.discard(gone.key)
            self.shifted.discard(gone.key)
            self.moved.discard(gone.key)
        if element.parent and element in element.parent.children:
            element.parent.children.remove(element)
            element.parent.retell()
        element.parent = None
