"""The accessibility bus: waking it, and the applications on it."""

from __future__ import annotations

import asyncio
from typing import Any, Mapping, Optional

from reflexarc_agent.backends.linux.atspi import events, names
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import ANSWER, Bounds, keys
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.errors import UnavailableError
from reflexarc_agent.backends.linux.atspi.mirrors import Mirrors, Place
from reflexarc_agent.backends.linux.dbus.address import session_bus
from reflexarc_agent.backends.linux.dbus.bus import DAEMON, Bus, Call, call_of
from reflexarc_agent.backends.linux.dbus.encoding import Variant
from reflexarc_agent.backends.linux.dbus.errors import BusConnectError, CallError, DBusError, NoReplyError
from reflexarc_agent.backends.linux.dbus.message import INTERFACE, PATH, SENDER, Message

STATUS = "org.a11y.Status"
APPLICATIONS = 200
ACTIVE = names.STATE["active"]
ACTIVATION = 25.0
"""Seconds that the session bus is given to start the service of the accessibility bus."""


class Desktop:
    """All applications of one desktop session; used on one event loop only."""

    def __init__(
        self,
        bus: Bus,
        bounds: Optional[Bounds] = None,
        place: Optional[Place] = None,
        wayland: bool = False,
    ) -> None:
        self.bus = bus
        self._wayland = wayland
        self.bounds = bounds or Bounds()
        self.mirrors = Mirrors(bus, self.bounds, place)
        self.changes = 0
        self.listeners: set[events.Listener] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._apps: dict[str, Application] = {}
        bus.on_signal = self._signalled
        bus.on_lost = lambda: self._tell("lost")

    @classmethod
    async def open(cls, environ: Mapping[str, str], place: Optional[Place] = None) -> Desktop:
        """Wake the toolkits and listen to their events; raises UnavailableError where there is no session."""
        try:
            address = environ.get("AT_SPI_BUS_ADDRESS") or await woken_address(environ)
            wayland = bool(environ.get("WAYLAND_DISPLAY"))
            desktop = cls(await Bus.connect(address), place=place, wayland=wayland)
            try:
                await desktop._listen()
            except BaseException:
                desktop.close()
                raise
        except DBusError as error:
            raise UnavailableError(f"no accessibility bus: {error}; is at-spi2-core installed?") from error
        return desktop

    def close(self) -> None:
        """Leave the bus."""
        for app in self._apps.values():
            app.close()
        self.bus.close()

    async def _listen(self) -> None:
        for interface in (*events.INTERFACES, DAEMON):
            rule = f"type='signal',interface='{interface}'"
            await self.bus.call(
                call_of(DAEMON, "/org/freedesktop/DBus", f"{DAEMON}.AddMatch", "s", rule), ANSWER
            )
        for event in ("object:", "window:"):
            register = f"{names.REGISTRY}.RegisterEvent"
            await self.bus.call(call_of(names.REGISTRY, names.REGISTRY_PATH, register, "s", event), 5.0)

    def tell_change(self) -> None:
        """Wake who waits for a change."""
        self.changes += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    async def change(self, seen: int, deadline: float) -> bool:
        """Wait until `changes` isn't `seen` any more; False when the deadline (of the loop's clock) passed before."""
        loop = asyncio.get_running_loop()
        if self.changes != seen:
            return True
        waiter = loop.create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait_for(waiter, max(0.0, deadline - loop.time()))
        except asyncio.TimeoutError:
            return False
        finally:
            self._waiting.discard(waiter)
        return True

    def _signalled(self, message: Message) -> None:
        sender = message.text(SENDER)
        if sender == DAEMON:
            self._left(message)
            return
        app = self._apps.get(sender)
        if app and message.text(INTERFACE) in events.INTERFACES:
            events.apply(app, message)
        self.tell_change()
        if self.listeners:
            self._tell(events.kind(message) if app else "apps", (sender, message.text(PATH)) if app else None)

    def _tell(self, kind: str, key: Optional[Key] = None) -> None:
        for listener in list(self.listeners) if kind else ():
            listener(kind, key)

    def _left(self, message: Message) -> None:
        """Forget an application whose connection has ended."""
        try:
            values = message.values()
        except DBusError:
            return
        if len(values) == 3 and values[0] == values[1] and not values[2]:
            app = self._apps.pop(str(values[0]), None)
            if app:
                app.close()
                self._tell("apps")
            self.tell_change()

    # -- applications

    async def applications(self) -> list[Application]:
        """The applications that are there now; a hung one is listed by its process id alone."""
        call = Call(names.REGISTRY, names.ROOT_PATH, names.ACCESSIBLE, "GetChildren")
        try:
            listed = await self.bus.call(call, ANSWER)
        except DBusError as error:
            raise UnavailableError(f"the accessibility registry doesn't answer: {error}") from error
        owners = dict.fromkeys(owner for owner, _ in keys(listed[0])[:APPLICATIONS])
        new = [
            Application(owner, self.bus, wayland=self._wayland) for owner in owners if owner not in self._apps
        ]
        self._apps.update((app.owner, app) for app in new)
        known = [self._apps[owner] for owner in owners]
        unnamed = [app for app in known if not app.toolkit and not app.hung]
        await asyncio.gather(*map(self._introduce, unnamed))
        return [self._apps[owner] for owner in owners if owner in self._apps]

    async def application(self, pid: int) -> Application:
        """The application of a process; raises UnavailableError where it isn't on the bus."""
        for app in self._apps.values():
            if app.pid == pid and app.toolkit:
                return app
        for app in await self.applications():
            if app.pid == pid:
                return app
        raise UnavailableError(f"process {pid} is not on the accessibility bus")

    def of(self, key: Key) -> Optional[Application]:
        """The application that an element belongs to, where it is still there."""
        return self._apps.get(key[0])

    async def _introduce(self, app: Application) -> None:
        """Ask an application for its name and toolkit, and for a straight connection."""
        root = app.root.key
        asked = {
            "name": Call(*root, names.PROPERTIES, "Get", "ss", names.NAME_BODY),
            "toolkit": call_of(*root, names.PROPERTIES + ".Get", "ss", names.APPLICATION, "ToolkitName"),
            "version": call_of(*root, names.PROPERTIES + ".Get", "ss", names.APPLICATION, "Version"),
            "address": call_of(*root, names.APPLICATION + ".GetApplicationBusAddress"),
            "pid": call_of(
                DAEMON, "/org/freedesktop/DBus", f"{DAEMON}.GetConnectionUnixProcessID", "s", app.owner
            ),
        }
        answers = await asyncio.gather(*(self._answer(call) for call in asked.values()))
        said = dict(zip(asked, answers))
        if said["toolkit"] is None:
            app.suspect()
        app.pid = said["pid"] if isinstance(said["pid"], int) else 0
        app.name, app.toolkit, app.version = (
            str(said[field])[:200] if said[field] else "" for field in ("name", "toolkit", "version")
        )
        if said["address"] and isinstance(said["address"], str):
            try:
                app.peer = await asyncio.wait_for(Bus.connect(said["address"], peer=True), ANSWER)
                app.address = said["address"]
            except (BusConnectError, asyncio.TimeoutError):
                app.peer = None

    async def _answer(self, call: Call) -> Any:
        """The first value of an answer, None where there is none."""
        try:
            values = await self.bus.call(call, ANSWER)
        except DBusError:
            return None
        return values[0] if values else None

    async def windows(self, app: Application) -> list[Element]:
        """The windows of an application with their states, read now; none where it doesn't answer."""
        if app.hung:
            return []
        try:
            listed = await app.ask(Call(*app.root.key, names.ACCESSIBLE, "GetChildren"), ANSWER)
        except NoReplyError:
            app.suspect()
            return []
        except DBusError:
            return []
        found = [Element(key) for key in keys(listed)[:64]]
        states = await asyncio.gather(
            *(self._answer(Call(*window.key, names.ACCESSIBLE, "GetState")) for window in found)
        )
        for window, words in zip(found, states):
            window.states = names.state_bits(words) if isinstance(words, tuple) else 0
        return found

    async def frontmost(self) -> Application:
        """The application with the active window, else the first that shows one; raises UnavailableError."""
        apps = await self.applications()
        apps = [app for app in apps if app.toolkit]
        windows = await asyncio.gather(*map(self.windows, apps))
        for state in (ACTIVE, names.STATE["showing"]):
            for app, shown in zip(apps, windows):
                if any(window.has(state) for window in shown):
                    return app
        raise UnavailableError("no application shows a window on the accessibility bus")


async def woken_address(environ: Mapping[str, str]) -> str:
    """Tell the toolkits that somebody listens (they are dormant before), and ask where."""
    session = await Bus.connect(session_bus(environ))
    try:
        for flag in ("IsEnabled", "ScreenReaderEnabled"):
            set_flag = call_of(
                "org.a11y.Bus",
                "/org/a11y/bus",
                names.PROPERTIES + ".Set",
                "ssv",
                STATUS,
                flag,
                Variant("b", True),
            )
            try:
                await session.call(set_flag, ACTIVATION)
            except CallError:
                continue
        address = call_of("org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus.GetAddress")
        return str((await session.call(address, ACTIVATION))[0])
    finally:
        session.close()
