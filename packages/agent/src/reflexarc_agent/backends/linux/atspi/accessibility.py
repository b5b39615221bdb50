"""The accessibility backend: one event loop in a thread of its own, asked from any other."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Callable, Coroutine, Mapping, Optional, Protocol, TypeVar

from reflexarc_agent.backends.linux.atspi.acting import Actor, Input
from reflexarc_agent.backends.linux.atspi.desktop import Desktop
from reflexarc_agent.backends.linux.atspi.errors import AtSpiError
from reflexarc_agent.backends.linux.atspi.refs import Refs
from reflexarc_agent.backends.linux.atspi.session import Session

T = TypeVar("T")
LEAVING = 1.0
"""Seconds that operations under way have to answer when the bus is left."""

ENDED = "the connection to the accessibility bus has ended: ask again"


class Watched(Protocol):
    """Something whose descriptor is readable while it has something to tell; `take` says whether it has."""

    def fileno(self) -> int: ...

    def take(self) -> bool: ...

    def close(self) -> None: ...


class Accessibility:
    """The desktop's applications, read and acted on; a context manager.

    Sessions are made for each connection; their operations are run with `run`, from any thread.
    """

    def __init__(self, environ: Mapping[str, str], devices: Optional[Input] = None) -> None:
        self._environ = environ
        self.devices = devices
        self._closed = False
        self._submitting = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="atspi", daemon=True)
        self._desktop: Optional[Desktop] = None
        self._actor: Optional[Actor] = None

    def open(self) -> None:
        """Connect; raises UnavailableError where there is no accessibility bus."""
        self._thread.start()
        try:
            self._desktop = self.run(
                Desktop.open(self._environ, self.devices.place if self.devices else None)
            )
        except BaseException:
            self.close()
            raise
        self._actor = Actor(self._desktop, self.devices)

    def __enter__(self) -> Accessibility:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def lost(self) -> bool:
        """Whether the bus has ended the connection."""
        return self._desktop is None or self._desktop.bus.closed

    def session(self, refs: Optional[Refs] = None) -> Session:
        """The operations of a new connection, or of one that was there before with its references."""
        assert self._desktop
        assert self._actor
        return Session(self._desktop, self._actor, refs)

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run one operation, and wait for its result; raises AtSpiError where this is closed."""
        with self._submitting:
            if self._closed:
                operation.close()
                raise AtSpiError(ENDED)
            running = asyncio.run_coroutine_threadsafe(operation, self._loop)
        try:
            return running.result()
        except CancelledError:
            raise AtSpiError(ENDED) from None

    def listen(self, session: Session, tell: Callable[[str, Optional[str]], None]) -> Callable[[], None]:
        """Have changes told to a connection, as `Session.listen` does; returns the end of it, callable anywhere."""

        async def begin() -> Callable[[], None]:
            return session.listen(tell)

        return self._ending(self.run(begin()))

    def watch(self, source: Watched, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` whenever the source has something; returns the end of it, which closes the source."""
        number = source.fileno()

        def look() -> None:
            try:
                changed = source.take()
            except Exception:  # noqa: BLE001 (what is watched is gone)
                self._loop.remove_reader(number)
                changed = True
            if changed:
                tell()

        def end() -> None:
            self._loop.remove_reader(number)
            source.close()

        async def begin() -> None:
            self._loop.add_reader(number, look)

        self.run(begin())
        return self._ending(end)

    def _ending(self, end: Callable[[], None]) -> Callable[[], None]:
        """The same, done on the event loop as long as that runs."""

        async def do() -> None:
            end()

        def ended() -> None:
            try:
                self.run(do())
            except AtSpiError:
                end()

        return ended

    def close(self) -> None:
        """Leave the bus, and end the thread; what is under way answers that the bus is gone."""
        with self._submitting:
            if self._closed:
                return
            self._closed = True
        with suppress(FutureTimeoutError):
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(5 * LEAVING)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()

    async def _leave(self) -> None:
        if self._desktop:
            self._desktop.close()
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, late = await asyncio.wait(others, timeout=LEAVING)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
