"""The API for programs without asyncio: looking, waiting, keys, power and runs; each call returns when it is done.

All else is reached through the asynchronous API: `m.call(m.session.pointer.click(x, y))`.

with reflexarc.sync.open("lab1") as m:
    m.wait_for("grub_menu")
    m.keyboard.press("enter")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import reflexarc

if TYPE_CHECKING:
    from reflexarc.machine.accessibility import Element, Found, Selector
    from reflexarc.machine.capabilities import PowerState
    from reflexarc.machine.frame import Frame
    from reflexarc.observation import Observation
    from reflexarc.playbook.state import Escalation, RunState
    from reflexarc.runs.replies import Reply
    from reflexarc.runs.session import Session

T = TypeVar("T")


class Keyboard:
    """Keys of the machine; see `reflexarc.machine.keyboard.GuardedKeyboard`."""

    def __init__(self, session: Session, call: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._keys = session.keyboard
        self._call = call

    def press(self, key: str, *, times: int = 1) -> None:
        self._call(self._keys.press(key, times=times))

    def type(self, text: str, *, secret: bool = False) -> None:
        self._call(self._keys.type(text, secret=secret))


class Power:
    """Power of the machine; see `reflexarc.machine.machine.GuardedPower`."""

    def __init__(self, machine: Machine, session: Session) -> None:
        self._machine = machine
        self._power = session.power

    def state(self) -> PowerState:
        return self._machine.call(self._power.state())

    def on(self) -> None:
        self._machine.call(self._power.on())

    def off(self) -> None:
        self._machine.call(self._power.off())

    def shutdown(self, timeout: float = 120.0) -> None:
        self._machine.call(self._power.shutdown(timeout))

    def reset(self) -> None:
        self._machine.call(self._power.reset())

    def cycle(self) -> None:
        self._machine.call(self._power.cycle())


class Ax:
    """Elements of the machine's desktop; see `reflexarc.machine.elements.Elements`."""

    def __init__(self, machine: Machine, session: Session) -> None:
        self._machine = machine
        self._elements = session.ax
        self._tree = session.accessibility

    def find(self, selector: Selector, *, limit: int = 20) -> Found:
        return self._machine.call(self._elements.find(selector, limit=limit))

    def one(self, selector: Selector) -> Element:
        return self._machine.call(self._elements.one(selector))

    def press(self, selector: Selector) -> Element:
        return self._machine.call(self._elements.press(selector))

    def act(self, selector: Selector, action: str) -> Element:
        return self._machine.call(self._elements.act(selector, action))

    def set_value(self, selector: Selector, value: str | float | bool) -> Element:
        return self._machine.call(self._elements.set_value(selector, value))

    def focus(self, selector: Selector) -> Element:
        return self._machine.call(self._elements.focus(selector))

    def wait(self, selector: Selector, *, gone: bool = False, timeout: float = 30.0) -> Element | None:
        return self._machine.call(self._tree.wait(selector, gone=gone, timeout=timeout))

    def outline(self, *, interactive_only: bool = False) -> str:
        """The outline of the application in front."""
        return self._machine.call(self._tree.dump(form="outline", interactive_only=interactive_only)).outline


class Machine:
    """One open machine."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self._loop = loop

    @property
    def keyboard(self) -> Keyboard:
        return Keyboard(self.session, self.call)

    @property
    def power(self) -> Power:
        return Power(self, self.session)

    @property
    def ax(self) -> Ax:
        return Ax(self, self.session)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asynchronous API to its end."""
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def observe(self) -> Observation:
        """Look at the machine now."""
        return self.call(self.session.observe())

    def screenshot(self) -> Frame:
        """Take a frame now."""
        return self.call(self.session.screen.screenshot())

    def wait_for(
        self, condition: object, *, timeout: float | None = None, hold_for: float | None = None
    ) -> Observation:
        """Wait until a condition holds; see `Session.wait_for`."""
        return self.call(self.session.wait_for(condition, timeout=timeout, hold_for=hold_for))

    def run(
        self,
        playbook: Path | str | Mapping[str, object],
        *,
        variables: Mapping[str, object] | None = None,
        secret_references: Mapping[str, str] | None = None,
        grant: Sequence[str] = (),
        start_at: str | int = 0,
        answer: Callable[[Escalation], Reply] | None = None,
        video: bool = False,
    ) -> RunState:
        """Run a playbook to its end, or to a hold where there is no `answer`; see `Session.begin`."""

        async def answered(held: Escalation) -> Reply:
            assert answer is not None
            return await asyncio.to_thread(answer, held)

        async def drive() -> RunState:
            run = await self.session.begin(
                playbook,
                variables=variables,
                secret_references=secret_references,
                grant=grant,
                video=video,
                start_at=start_at,
            )
            reply: Callable[[Escalation], Awaitable[Reply]] | None = answered if answer else None
            try:
                return await run.drive(reply)
            finally:
                run.release()

        return self.call(drive())


@contextmanager
def open(  # noqa: A001 - the twin of reflexarc.open
    machine: str, *, grant: Sequence[str] = (), inventory: Path | None = None
) -> Iterator[Machine]:
    """Open a machine of the inventory; see `reflexarc.open`."""
    opened = reflexarc.open(machine, grant=grant, inventory=inventory)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=f"reflexarc {machine}", daemon=True)
    thread.start()

    def call(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    async def enter() -> Session:
        return await opened.__aenter__()

    async def leave() -> None:
        await opened.__aexit__(None, None, None)

    try:
        session = call(enter())
        try:
            yield Machine(session, loop)
        finally:
            call(leave())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
