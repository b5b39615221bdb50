"""The accessibility backend: one event loop in a thread of its own, asked from any other."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Coroutine, Mapping, Optional, TypeVar

from reflexarc_agent.backends.linux.atspi.acting import Actor, Input
from reflexarc_agent.backends.linux.atspi.desktop import Desktop
from reflexarc_agent.backends.linux.atspi.errors import AtSpiError
from reflexarc_agent.backends.linux.atspi.refs import Refs
from reflexarc_agent.backends.linux.atspi.session import Session

T = TypeVar("T")
LEAVING = 1.0
"""Seconds that operations under way have to answer when the bus is left."""

ENDED = "the connection to the accessibility bus has ended: ask again"


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
