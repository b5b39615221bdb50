"""Accepts hosts on every transport and gives each connection a thread, so that none waits for another."""

from __future__ import annotations

import errno
import select
import threading
from contextlib import suppress
from typing import Dict, List, Optional, Protocol

from reflexarc_agent.channel import Channel
from reflexarc_agent.connection import Connection
from reflexarc_agent.registry import Registry
from reflexarc_wire import write_reply
from reflexarc_wire.errors import BUSY
from reflexarc_wire.replies import Failure

MAX_CONNECTIONS = 64
_STOP_TIMEOUT = 10.0
# Out of descriptors or memory: what is open may end soon.
_PAUSE = 0.1
_PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EAGAIN, errno.EINTR}
)


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
        self._closing = threading.Event()

    def listen(self, listener: Listener) -> None:
        """Accept hosts from now on, in a thread of its own."""
        thread = threading.Thread(target=self._accept_all, args=(listener,), name=f"accept {listener.name}")
        self._accepting.append(thread)
        thread.start()

    def close(self) -> None:
        """Stop accepting, end every connection, which kills its command, and wait for all of it."""
        self._closing.set()
        for thread in self._accepting:
            thread.join(_STOP_TIMEOUT)
        with self._lock:
            served = dict(self._served)
        for channel in served.values():
            channel.interrupt()
        for thread in served:
            thread.join(_STOP_TIMEOUT)

    def _accept_all(self, listener: Listener) -> None:
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        try:
            while not self._closing.is_set():
                if poll.poll(_PAUSE * 1000):
                    self._accept(listener)
        finally:
            listener.close()

    def _accept(self, listener: Listener) -> None:
        try:
            channel = listener.accept()
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            self._closing.wait(_PAUSE)
            return
        with self._lock:
            full = len(self._served) >= MAX_CONNECTIONS
            if not full:
                thread = threading.Thread(
                    target=self._serve, args=(channel, listener.token), name="connection"
                )
                self._served[thread] = channel
        if full:
            self._turn_away(channel)
            return
        thread.start()

    def _serve(self, channel: Channel, token: Optional[str]) -> None:
        try:
            Connection(channel, self._registry, token).serve()
        finally:
            with self._lock:
                del self._served[threading.current_thread()]

    def _turn_away(self, channel: Channel) -> None:
        failure = Failure(f"{MAX_CONNECTIONS} connections are open; close one", BUSY)
        with suppress(Exception):
            channel.send(memoryview(write_reply(failure)))
        channel.close()
