"""Acting on one element by its identity, and telling truthfully what came of it.

A reply is never waited for blindly: an action that opens a modal dialog answers when the dialog closes.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Optional, Protocol, Union

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import ACTIONS, EXTENTS, GET_ACTIONS
from reflexarc_agent.backends.linux.atspi.desktop import Desktop
from reflexarc_agent.backends.linux.atspi.element import FOCUSED, Element, Frame
from reflexarc_agent.backends.linux.atspi.errors import StaleRefError, TimedOutError, UnsupportedError
from reflexarc_agent.backends.linux.atspi.nodes import CHECKED, PRESSED
from reflexarc_agent.backends.linux.atspi.refs import Named
from reflexarc_agent.backends.linux.atspi.roles import AX_ACTIONS, TOGGLES
from reflexarc_agent.backends.linux.dbus.bus import Call, Result, call_of
from reflexarc_agent.backends.linux.dbus.encoding import Variant, encode
from reflexarc_agent.backends.linux.dbus.errors import CallError, DBusError, NoReplyError
from reflexarc_agent.backends.linux.pictures import Area

DELIVERED, NOT_DELIVERED, UNKNOWN = "delivered", "not_delivered", "unknown"
REPLY = 2.0
"""Seconds that an action is given to answer, or to show an effect."""

PIECE = 15
"""Characters typed before it is looked whether they have come, where keys have to be lent for them."""

TRIES = 5
"""How often a part of a text is typed where something else came of it."""

DUE = 5.0
"""Seconds that an application is given to take more of what was typed, where what is there is its beginning."""

TYPED = 15.0
"""Seconds that an application is given at most to take what was typed, while more of it keeps coming."""

EFFECT = 1.0
"""Seconds that a value is given to be what it was set to."""

GRACE = 0.05
"""Seconds between the window that an action opened and the answer that it will not give before that closes."""

DEFUNCT = names.STATE["defunct"]
Value = Union[str, bool, float]


@dataclass(frozen=True)
class Delivery:
    """What came of an action: delivered, not_delivered or unknown, and by which way it went.

    What is unknown may have happened; it is safe to try again only what was not delivered.
    """

    delivery: str
    way: str = "action"

    @property
    def retry_safe(self) -> bool:
        return self.delivery == NOT_DELIVERED


class Input(Protocol):
    """Pointer and keys, for what a toolkit doesn't do itself; points of the screen."""

    def click(self, x: float, y: float, button: str = "left", count: int = 1) -> None: ...

    def key(self, chord: str) -> None: ...

    def type(self, text: str) -> None: ...

    def lend(self, text: str) -> int:
        """Have keys for the characters of a text; how many there are up to the first that got one only now, else 0."""
        ...

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where the content of a process's window of this title is on the screen."""
        ...


class Actor:
    """Acts on elements of one desktop; `devices` is absent where there is no pointer and no keyboard."""

    def __init__(self, desktop: Desktop, devices: Optional[Input] = None) -> None:
        self._desktop = desktop
        self._devices = devices

    # -- who is meant

    async def resolve(self, named: Named) -> tuple[Application, Element]:
        """The element of a reference, read now; raises StaleRefError where it is gone, or another."""
        app = self._desktop.of(named.key)
        if app is None:
            raise StaleRefError(f"the application of {named.ref} has ended: dump again")
        element = Element(named.key)
        mirrored = app.elements.get(named.key)
        await self._identify(app, element, named)
        known_names = {named.name, mirrored.name if mirrored else named.name}
        if element.number != named.number or element.name not in known_names or element.has(DEFUNCT):
            raise StaleRefError(f"{named.ref} is not the {named.name[:60]!r} that was read: dump again")
        if mirrored:
            element.parent = mirrored.parent
        return app, element

    async def _identify(self, app: Application, element: Element, named: Named) -> None:
        try:
            number, states, interfaces, name = await asyncio.gather(
                self._ask(element, "Accessible.GetRole"),
                self._ask(element, "Accessible.GetState"),
                self._ask(element, "Accessible.GetInterfaces"),
                self._property(element, names.ACCESSIBLE, "Name"),
            )
        except NoReplyError:
            raise TimedOutError(
                f"{app.name or 'the application'} (process {app.pid}) doesn't answer"
            ) from None
        except CallError:
            raise StaleRefError(f"{named.ref} is gone: dump again") from None
        element.number = number if isinstance(number, int) else -1
        element.states = names.state_bits(states)
        element.interfaces = names.interface_bits(tuple(interfaces))
        element.name = str(name)[:4000]

    async def _ask(self, element: Element, method: str, signature: str = "", *values: Any) -> Any:
        return await self._call(call_of(*element.key, names.PREFIX + method, signature, *values))

    async def _call(self, call: Call) -> Any:
        """The first value of the answer; raises CallError, or NoReplyError."""
        app = self._desktop.of((call.destination, call.path))
        if app is None:
            raise CallError("org.freedesktop.DBus.Error.ServiceUnknown", "the application has ended")
        return await app.ask(call, REPLY)

    async def _property(self, element: Element, interface: str, name: str) -> Any:
        call = call_of(*element.key, names.PROPERTIES + ".Get", "ss", interface, name)
        return await self._call(call)

    # -- named actions

    async def act(self, named: Named, action: str) -> Delivery:
        """Perform an action by its AX or its own name; raises UnsupportedError where the element has none such."""
        app, element = await self.resolve(named)
        offered = await self.offered(element)
        wanted = AX_ACTIONS.get(action, (action,))
        index = next(
            (i for word in wanted for i, own in enumerate(offered) if own.lower() == word.lower()), None
        )
        if index is None:
            if action == "AXPress" and self._devices:
                return await self._click(app, element)
            told = ", ".join(offered) or "no action"
            raise UnsupportedError(f"{element.role} {element.name[:60]!r} offers {told}, not {action[:60]}")
        return await self._do(app, element, index)

    async def offered(self, element: Element) -> list[str]:
        """The toolkit's own names of an element's actions; GetActions tells their translations only."""
        if not element.interfaces & names.HAS_ACTION:
            return []
        try:
            listed = await self._call(Call(*element.key, *GET_ACTIONS))
        except DBusError:
            return []
        count = min(len(listed), ACTIONS) if isinstance(listed, list) else 0
        own = await asyncio.gather(
            *(self._ask(element, "Action.GetName", "i", index) for index in range(count)),
            return_exceptions=True,
        )
        return [name if isinstance(name, str) else str(told[0]) for name, told in zip(own, listed)]

    async def _do(self, app: Application, element: Element, index: int) -> Delivery:
        """DoAction, judged by its reply, or by the window that it opens.

        GTK 3 answers first and acts then; what is asked behind it on the same line is answered when it has acted.
        """
        windows = app.window_events
        line = await app.line()
        owner = element.key[0] if line is app.bus else ""
        replies: list[Result] = []
        action = Call(owner, element.key[1], names.ACTION, "DoAction", "i", encode("i", [index]))
        behind = Call(owner, names.ROOT_PATH, names.ACCESSIBLE, "GetRole")
        for call in (action, behind):
            line.post(call, lambda result: self._reply(replies, result))
        deadline = asyncio.get_running_loop().time() + REPLY
        while len(replies) < 2 and app.window_events == windows:
            if not await self._desktop.change(self._desktop.changes, deadline):
                break
        if app.window_events > windows:
            await self._desktop.change(self._desktop.changes, asyncio.get_running_loop().time() + GRACE)
        return _judged(replies, app.window_events > windows)

    def _reply(self, replies: list[Result], result: Result) -> None:
        """Note a reply, and let who waits look at it."""
        replies.append(result)
        self._desktop.tell_change()

    async def _verify(self, holds: Callable[[], Awaitable[bool]], seconds: float = EFFECT) -> bool:
        """Read again at each event, and every 50 ms, until it holds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await holds():
            if loop.time() >= deadline:
                return False
            await self._desktop.change(self._desktop.changes, loop.time() + 0.05)
        return True

    # -- focus

    async def focus(self, named: Named) -> Delivery:
        """Give an element the keyboard focus; verified by its state, since toolkits claim it too easily."""
        app, element = await self.resolve(named)
        return await self._focus(app, element)

    async def _focus(self, app: Application, element: Element) -> Delivery:
        with contextlib.suppress(DBusError):
            await self._ask(element, "Component.GrabFocus")
        if await self._verify(lambda: self._is(element, FOCUSED), EFFECT / 2):
            return Delivery(DELIVERED)
        if self._devices and element.role not in TOGGLES and "button" not in element.role:
            clicked = await self._click(app, element)
            focused = await self._verify(lambda: self._is(element, FOCUSED), EFFECT / 2)
            return clicked if focused else Delivery(UNKNOWN, clicked.way)
        return Delivery(NOT_DELIVERED)

    async def _is(self, element: Element, state: int) -> bool:
        try:
            return bool(names.state_bits(await self._ask(element, "Accessible.GetState")) & state)
        except DBusError:
            return False

    # -- values

    async def set_value(self, named: Named, value: Value) -> Delivery:
        """Set a text, a number, or whether something is checked; verified by reading it again."""
        app, element = await self.resolve(named)
        if isinstance(value, bool):
            return await self._check(app, element, value)
        if isinstance(value, (int, float)) and element.interfaces & names.HAS_VALUE:
            return await self._set_number(element, float(value))
        text = value if isinstance(value, str) else f"{value:g}"
        return await self._set_text(app, element, text)

    async def _check(self, app: Application, element: Element, wanted: bool) -> Delivery:
        state = CHECKED | PRESSED
        if element.role not in TOGGLES:
            raise UnsupportedError(f"{element.role} {element.name[:60]!r} can't be checked")
        if bool(element.states & state) == wanted:
            return Delivery(DELIVERED, "already")
        offered = await self.offered(element)
        delivery = await self._do(app, element, 0) if offered else await self._click(app, element)

        async def there() -> bool:
            return await self._is(element, state) == wanted

        if delivery.delivery == NOT_DELIVERED or await self._verify(there):
            return delivery
        return Delivery(UNKNOWN, delivery.way)

    async def _set_number(self, element: Element, wanted: float) -> Delivery:
        call = call_of(
            *element.key, names.PROPERTIES + ".Set", "ssv", names.VALUE, "CurrentValue", Variant("d", wanted)
        )
        try:
            await self._call(call)
        except CallError:
            return Delivery(NOT_DELIVERED)
        except NoReplyError:
            return Delivery(UNKNOWN)

        async def there() -> bool:
            held = await self._property(element, names.VALUE, "CurrentValue")
            return isinstance(held, (int, float)) and abs(held - wanted) <= 1e-6 * max(1.0, abs(wanted))

        return Delivery(DELIVERED if await self._verify(there) else UNKNOWN)

    async def _set_text(self, app: Application, element: Element, text: str) -> Delivery:
        # Keys would do to them whatever each of them means there.
        if element.role in TOGGLES or element.role == "slider":
            takes = "a number" if element.role == "slider" else "true or false"
            raise UnsupportedError(f"{element.role} {element.name[:60]!r} takes {takes}, not {text[:60]!r}")
        if element.interfaces & names.HAS_EDITABLE_TEXT and not app.browser:
            try:
                accepted = await self._ask(element, "EditableText.SetTextContents", "s", text)
            except CallError:
                accepted = False
            except NoReplyError:
                return Delivery(UNKNOWN)
            if accepted and await self._verify(lambda: self._holds(element, text), EFFECT / 2):
                return Delivery(DELIVERED)
        if not self._devices:
            raise UnsupportedError(
                f"{element.role} {element.name[:60]!r} takes no text, and there is no keyboard"
            )
        return await self._type_over(app, element, text)

    async def _type_over(self, app: Application, element: Element, text: str) -> Delivery:
        """Select what is there and type over it, as a person would."""
        assert self._devices
        if (await self._focus(app, element)).delivery != DELIVERED:
            return Delivery(NOT_DELIVERED, "keys")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._devices.key, "ctrl+a")
        if not text.isascii():
            return Delivery(DELIVERED if await self._type_pieces(element, text) else UNKNOWN, "keys")
        if text:
            await loop.run_in_executor(None, self._devices.type, text)
        else:
            await loop.run_in_executor(None, self._devices.key, "delete")
        return Delivery(DELIVERED if await self._typed(element, text) else UNKNOWN, "keys")

    async def _type_pieces(self, element: Element, text: str) -> bool:
        """Type what keys have to be lent for piece by piece, each once the one before is seen; whether all was.

        An application may learn late what is on the keys now, and type what was there: the first one shows whether.
        """
        assert self._devices
        loop, at = asyncio.get_running_loop(), 0
        while at < len(text):
            end = min(at + PIECE, len(text))
            first = await loop.run_in_executor(None, self._devices.lend, text[at:end])
            for stop in (at + first, end):
                if stop > at and not await self._type_seen(element, text, at, stop):
                    return False
                at = stop
        return True

    async def _type_seen(self, element: Element, text: str, at: int, stop: int) -> bool:
        """Type a part of a text until it is seen behind what is there; what other came of it is taken back."""
        assert self._devices
        loop = asyncio.get_running_loop()
        for _ in range(TRIES):
            await loop.run_in_executor(None, self._devices.type, text[at:stop])
            if await self._typed(element, text[:stop]):
                return True
            held = await self._held(element, text)
            if not (isinstance(held, str) and held.startswith(text[:at]) and at < len(held) <= stop):
                return False
            for _ in held[at:]:
                await loop.run_in_executor(None, self._devices.key, "backspace")
            if not await self._typed(element, text[:at]):
                return False
        return False

    async def _typed(self, element: Element, text: str) -> bool:
        """Whether the element's text comes to be this; a busy browser takes keys long after they were pressed.

        It is waited for as long as more of it keeps coming, at most for `TYPED` seconds.
        """
        loop, seen = asyncio.get_running_loop(), None
        last = loop.time() + TYPED
        deadline = loop.time() + REPLY
        while True:
            held = await self._held(element, text)
            if held == _wanted(element, text):
                return True
            now = loop.time()
            if held != seen:
                due = isinstance(held, str) and text.startswith(held)
                seen, deadline = held, min(last, now + (DUE if due else REPLY))
            if now >= deadline:
                return False
            await self._desktop.change(self._desktop.changes, now + 0.05)

    async def _holds(self, element: Element, text: str) -> bool:
        """Whether the element's text is this; of a password only the length can be told."""
        return bool(await self._held(element, text) == _wanted(element, text))

    async def _held(self, element: Element, text: str) -> Any:
        """The element's text, as far as it takes to tell it from another; a password's length; None where untold."""
        try:
            if element.role == "password-text":
                return await self._property(element, names.TEXT, "CharacterCount")
            app = self._desktop.of(element.key)
            end = -1 if app and app.gecko else len(text) + 1
            return await self._ask(element, "Text.GetText", "ii", 0, end)
        except DBusError:
            return None

    # -- the pointer

    async def _click(self, app: Application, element: Element) -> Delivery:
        frame = await self.frame(app, element)
        if self._devices is None or frame is None:
            raise UnsupportedError(
                f"{element.role} {element.name[:60]!r} offers no action and has no place to click"
            )
        x, y = frame.x + frame.w / 2, frame.y + frame.h / 2
        await asyncio.get_running_loop().run_in_executor(None, self._devices.click, x, y)
        return Delivery(DELIVERED, "pointer")

    async def frame(self, app: Application, element: Element) -> Optional[Frame]:
        """Where an element is now, on the screen; None where it isn't."""
        try:
            answer = await self._call(Call(*element.key, *EXTENTS, "u", app.extents_body))
        except DBusError:
            return None
        return app.frame(element, answer)


def _wanted(element: Element, text: str) -> str | int:
    """What `Actor._held` tells once the element holds a text."""
    return len(text) if element.role == "password-text" else text


def _judged(replies: list[Result], window: bool) -> Delivery:
    """What an action's reply, or the window that came instead of one, says."""
    if not replies:
        return Delivery(DELIVERED if window else UNKNOWN)
    result = replies[0]
    if isinstance(result, CallError):
        return Delivery(NOT_DELIVERED)
    if isinstance(result, DBusError):
        return Delivery(UNKNOWN)
    return Delivery(DELIVERED if result and result[0] else NOT_DELIVERED)
