"""A connection to a compositor: a thread reads what it tells, any thread may ask."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.protocol import DISPLAY, Protocol

LAST_WORDS = 1.0
PATIENCE = 5.0
"""Seconds that a compositor is given to answer."""

CHUNK, PASSED = 1 << 16, 28
GLOBALS = 1000
# Only Linux has these.
PEER_CREDENTIALS = getattr(socket, "SO_PEERCRED", 0)
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

Tell = Callable[..., None]
"""Gets an event's name and its arguments, in the reading thread."""


class Global(NamedTuple):
    """Something that the compositor offers."""

    number: int
    version: int


class Connection:
    """A client of the compositor that listens at a socket.

    Hold `lock` around requests that belong together, `told` to read what the tellings of events have written.
    """

    def __init__(self, path: str, environ_name: str = "") -> None:
        self.name = environ_name or path
        self.lock = threading.RLock()
        self.told = threading.Condition(threading.RLock())
        self._protocol = Protocol()
        self._listeners: Dict[int, Tell] = {}
        self._offered: Dict[str, Dict[int, Global]] = {}
        self._bound: Dict[str, int] = {}
        self._lost: Optional[str] = None
        self.on_offer: Callable[[str, Global], None] = lambda interface, offered: None
        self.on_withdrawal: Callable[[int], None] = lambda number: None
        self.on_lost: Callable[[], None] = lambda: None
        self._socket = _connected(path, self.name)
        self.peer = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, PEER_CREDENTIALS, 12))
        self._thread = threading.Thread(target=self._read, name="wayland", daemon=True)
        self._thread.start()
        try:
            self._registry = self.request(DISPLAY, "get_registry", tell=self._registered)
            self.roundtrip("listing what it offers")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection and its thread."""
        with self.told:
            self._lost = self._lost or "it was closed"
            self.told.notify_all()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join(PATIENCE)
        self._socket.close()

    def alive(self) -> None:
        """Raise WaylandError where the connection has ended."""
        if self._lost is not None:
            raise WaylandError(f"the connection to the compositor {self.name} has ended: {self._lost}")

    # -- what is offered

    def version(self, interface: str) -> int:
        """The version of something that is offered, 0 where it isn't."""
        with self.told:
            return max((known.version for known in self._offered.get(interface, {}).values()), default=0)

    def bind(self, interface: str, offered: Global, newest: int, tell: Optional[Tell] = None) -> int:
        """An object of something that is offered, in a version not above `newest`."""
        version = min(newest, offered.version)
        return self.request(self._registry, "bind", offered.number, interface, version, tell=tell)

    def only(self, interface: str, newest: int, what: str, tell: Optional[Tell] = None) -> int:
        """The one object of an interface, bound when first asked for; raises NotOfferedError, which names `what`."""
        with self.told:
            offered = next(iter(self._offered.get(interface, {}).values()), None)
            if offered is None:
                raise NotOfferedError(
                    f"this compositor does not offer {what} ({interface}); the host-side screen and keyboard serve"
                )
            if interface not in self._bound:
                self._bound[interface] = self.bind(interface, offered, newest, tell)
            return self._bound[interface]

    def all(self, interface: str) -> List[Global]:
        """Everything of an interface that is offered."""
        with self.told:
            return list(self._offered.get(interface, {}).values())

    def _registered(self, event: str, number: int, interface: str = "", version: int = 0) -> None:
        if event == "global_remove":
            for offered in self._offered.values():
                offered.pop(number, None)
            self.on_withdrawal(number)
        elif sum(map(len, self._offered.values())) < GLOBALS:
            offered_now = Global(number, version)
            self._offered.setdefault(interface[:100], {})[number] = offered_now
            self.on_offer(interface, offered_now)

    # -- asking and waiting

    def request(self, number: int, name: str, *arguments: Any, tell: Optional[Tell] = None) -> int:
        """Send a request; returns the object that it makes (0 where it makes none), whose events go to `tell`."""
        with self.told:
            self.alive()
            encoded = self._protocol.request(number, name, *arguments)
            if tell and encoded.made:
                self._listeners[encoded.made] = tell
            self._send(encoded.data, encoded.descriptors)
            return encoded.made

    def listen(self, number: int, tell: Optional[Tell]) -> None:
        """Hand the events of an object on, or none any more."""
        with self.told:
            if tell is None:
                self._listeners.pop(number, None)
            else:
                self._listeners[number] = tell

    def destroy(self, number: int, name: str = "destroy") -> None:
        """Send the request that ends an object."""
        self.listen(number, None)
        self.request(number, name)

    def wait(self, holds: Callable[[], bool], doing: str, seconds: float = PATIENCE) -> None:
        """Wait until what was told makes it hold; raises WaylandError when the time has passed."""
        with self.told:
            came = self.told.wait_for(lambda: self._lost is not None or holds(), seconds)
            if not holds():
                self.alive()
            if not came:
                raise WaylandError(
                    f"the compositor {self.name} did not answer within {seconds:g} s ({doing})"
                )

    def roundtrip(self, doing: str) -> None:
        """Wait until the compositor has done everything that was asked; raises WaylandError where it refused."""
        done: List[int] = []
        self.request(DISPLAY, "sync", tell=lambda event, serial: done.append(serial))
        self.wait(lambda: bool(done), doing)

    def _send(self, data: bytes, descriptors: List[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(descriptors)}i", *descriptors))]
        view, end = memoryview(data), time.monotonic() + PATIENCE
        while view:
            try:
                sent = self._socket.sendmsg([view], rights if descriptors else [], socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                if time.monotonic() > end:
                    self._lose("it takes no more requests")
                    self.alive()
                select.select([], [self._socket], [], 0.2)
                continue
            except OSError as error:
                # Why it ended may be there and not yet read.
                if threading.current_thread() is not self._thread:
                    self.told.wait_for(lambda: self._lost is not None, LAST_WORDS)
                self._lose(str(error))
                self.alive()
                raise
            view, descriptors = view[sent:], []

    # -- the reading thread

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        try:
            while self._lost is None:
                poll.poll()
                data, passed = self._received()
                with self.told:
                    self._protocol.feed(data, passed)
                    self._dispatch()
                    self.told.notify_all()
        except WaylandError as error:
            self._lose(str(error))
        except OSError as error:
            self._lose(error.strerror or str(error))
        finally:
            with self.told:
                for descriptor in self._protocol.leftover():
                    os.close(descriptor)
            self.on_lost()

    def _received(self) -> Tuple[bytes, List[int]]:
        space = socket.CMSG_SPACE(PASSED * 4)
        flags = socket.MSG_DONTWAIT | CLOSE_ON_EXEC
        data, ancillary, _, _ = self._socket.recvmsg(CHUNK, space, flags)
        passed: List[int] = []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(content) - len(content) % 4
                passed.extend(struct.unpack(f"{whole // 4}i", content[:whole]))
        if not data:
            for descriptor in passed:
                os.close(descriptor)
            raise WaylandError("it closed the socket")
        return data, passed

    def _dispatch(self) -> None:
        while (event := self._protocol.next()) is not None:
            if event.object == DISPLAY:
                self._displayed(event.name, event.arguments)
                continue
            tell = self._listeners.get(event.object)
            if tell is not None:
                tell(event.name, *event.arguments)
                continue
            for descriptor in event.descriptors:
                os.close(descriptor)

    def _displayed(self, name: str, arguments: Tuple[Any, ...]) -> None:
        if name == "error":
            number, code, message = arguments
            raise WaylandError(f"{self._protocol.interface(number)} error {code}: {message[:300]}")
        self._listeners.pop(arguments[0], None)

    def _lose(self, reason: str) -> None:
        with self.told:
            self._lost = self._lost or reason
            self.told.notify_all()


def _connected(path: str, name: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(PATIENCE)
    try:
        connected.connect(path)
    except OSError as error:
        connected.close()
        raise WaylandError(
            f"the compositor {name!r} can't be reached ({error}): are WAYLAND_DISPLAY and XDG_RUNTIME_DIR right?"
        ) from error
    connected.setblocking(False)
    return connected
