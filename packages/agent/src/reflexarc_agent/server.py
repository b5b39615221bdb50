"""Accepts hosts on every transport and gives each connection a thread, so that none waits for another."""

from __future__ import annotations

import os
import select
import threading
from contextlib import closing, suppress
from typing import Dict, List, Optional, Protocol

from reflexarc_agent.channel import Channel
from reflexarc_agent.connection import Connection
from reflexarc_agent.registry import Registry
from reflexarc_wire import write_reply
from reflexarc_wire.errors import BUSY
from reflexarc_wire.replies import Failure

MAX_CONNECTIONS = 64
_STOP_TIMEOUT = 10.0
_PAUSE = 0.1


class Listener(Protocol):
    """Where hosts come in; `token` is what they must bring, `name` says where it is."""

    name: str
    token: Optional[str]

    def fileno(self) -> int: ...

    def accept(self) -> Channel:
        """Take the host that waits; raises OSError."""

    def close(self) -> None: ...


class Server:
    """Serves listeners until it is closed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._served: Dict[threading.Thread, Channel] = {}
        self._accepting: List[threading.Thread] = []
        # Its end tells every thread that accepts to stop.
        self._open_fd, self._closing_fd = os.pipe()

    def listen(self, listener: Listener) -> None:
        """Accept hosts from now on, in a thread of its own."""
        thread = threading.Thread(target=self._accept_all, args=(listener,), name=f"accept {listener.name}")
        self._accepting.append(thread)
        thread.start()

    def close(self) -> None:
        """Stop accepting, end every connection, which kills its command, and wait for all of it."""
        os.close(self._closing_fd)
        for thread in self._accepting:
            thread.join(_STOP_TIMEOUT)
        with self._lock:
            served = dict(self._served)
        for channel in served.values():
            channel.interrupt()
        for thread in served:
            thread.join(_STOP_TIMEOUT)
        os.close(self._open_fd)

    def _accept_all(self, listener: Listener) -> None:
        with closing(listener):
            while not self._is_closing(listener.fileno()):
                try:
                    self._begin(listener.accept(), listener.token)
                except BlockingIOError:
                    continue
                except OSError:
                    # Out of descriptors or memory, mostly: what is open may end soon.
                    self._is_closing(timeout=_PAUSE)

    def _is_closing(self, listening: Optional[int] = None, timeout: Optional[float] = None) -> bool:
        """Wait for a host or for the end of the server, and tell whether it is that."""
        poll = select.poll()
        for fd in (self._open_fd, listening):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = poll.poll(None if timeout is None else timeout * 1000)
        return any(fd == self._open_fd for fd, _ in ready)

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
