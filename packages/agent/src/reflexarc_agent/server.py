"""Takes in hosts from every transport and gives each connection a thread, so that none waits for another."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from typing import Callable, Dict, List, Optional, Protocol

from reflexarc_agent.channel import Channel
from reflexarc_agent.connection import Connection
from reflexarc_agent.registry import Registry
from reflexarc_agent.stopping import Stop
from reflexarc_wire import write_reply
from reflexarc_wire.errors import BUSY
from reflexarc_wire.replies import Failure

MAX_CONNECTIONS = 64
_STOP_TIMEOUT = 10.0


class Source(Protocol):
    """Where hosts come from; `name` says where that is."""

    name: str

    def run(self, serve: Callable[[Channel, Optional[str]], None], stop: Stop) -> None:
        """Hand over each host, with the token it must bring, until told to stop; then let go of everything."""


class Server:
    """Serves the hosts of all its sources until it is closed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._served: Dict[threading.Thread, Channel] = {}
        self._sources: List[threading.Thread] = []
        self._stop = Stop()

    def take_from(self, source: Source) -> None:
        """Serve its hosts from now on, in a thread of its own."""
        thread = threading.Thread(target=source.run, args=(self._begin, self._stop), name=source.name)
        self._sources.append(thread)
        thread.start()

    def close(self) -> None:
        """Take in nobody any more, end every connection, which kills its command, and wait for all of it."""
        self._stop.set()
        for thread in self._sources:
            thread.join(_STOP_TIMEOUT)
        with self._lock:
            served = dict(self._served)
        for channel in served.values():
            channel.interrupt()
        for thread in served:
            thread.join(_STOP_TIMEOUT)
        self._stop.close()

    def _begin(self, channel: Channel, token: Optional[str]) -> None:
        thread = threading.Thread(target=self._serve, args=(channel, token), name="connection")
        with self._lock:
            full = len(self._served) >= MAX_CONNECTIONS
            if not full:
                self._served[thread] = channel
        if full:
            _turn_away(channel, f"{MAX_CONNECTIONS} connections are open; close one")
            return
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                del self._served[thread]
            _turn_away(channel, str(error))

    def _serve(self, channel: Channel, token: Optional[str]) -> None:
        try:
            Connection(channel, self._registry, token).serve()
        finally:
            with self._lock:
                del self._served[threading.current_thread()]


def _turn_away(channel: Channel, reason: str) -> None:
    with closing(channel), suppress(Exception):
        channel.send(memoryview(write_reply(Failure(reason, BUSY))))
