"""The accessibility backend: one event loop in a thread of its own, asked from any other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Coroutine, Mapping, Optional, TypeVar

from reflexarc_agent.backends.linux.atspi.acting import Actor, Input
from reflexarc_agent.backends.linux.atspi.desktop import Desktop
from reflexarc_agent.backends.linux.atspi.session import Session

T = TypeVar("T")


class Accessibility:
    """The desktop's applications, read and acted on; a context manager.

    Sessions are made for each connection; their operations are run with `run`, from any thread.
    """

    def __init__(self, environ: Mapping[str, str], devices: Optional[Input] = None) -> None:
        self._environ = environ
        self._devices = devices
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="atspi", daemon=True)
        self._desktop: Optional[Desktop] = None
        self._actor: Optional[Actor] = None

    def open(self) -> None:
        """Connect; raises UnavailableError where there is no accessibility bus."""
        self._thread.start()
        try:
            self._desktop = self.run(
                Desktop.open(self._environ, self._devices.origin if self._devices else None)
            )
        except BaseException:
            self.close()
            raise
        self._actor = Actor(self._desktop, self._devices)

    def __enter__(self) -> Accessibility:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def session(self) -> Session:
        """The operations of a new connection."""
        assert self._desktop
        assert self._actor
        return Session(self._desktop, self._actor)

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run one operation, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(operation, self._loop).result()

    def close(self) -> None:
        """Leave the bus, and end the thread."""
        if self._desktop:
            self._loop.call_soon_threadsafe(self._desktop.close)
            self.run(asyncio.sleep(0))
            self._desktop = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()
