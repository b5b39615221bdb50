"""The clipboard through the protocol for clipboard managers.

Source: wlr-data-control-unstable-v1; ext-data-control-v1.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.errors import NoAnswerError, TooLargeError
from reflexarc_agent.backends.linux.wayland.seat import Seat

MANAGERS = ("ext_data_control_manager_v1", "zwlr_data_control_manager_v1")
WHAT = "its clipboard"
TEXTS = ("text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "STRING", "TEXT")
"""The types that text is offered as, and asked for, the best one first."""

LONGEST = 1 << 20
KINDS = 200
TRANSFER = 5.0
SENDING = 8
"""How many may be given the text at once."""


class Clipboard:
    """Reads and sets the clipboard's text; raises NotOfferedError where the compositor lets nobody."""

    def __init__(self, connection: Connection, seat: Seat) -> None:
        self._connection = connection
        self._seat = seat
        self._device: Optional[int] = None
        self._offers: Dict[int, List[str]] = {}
        self._selection: Optional[int] = None
        self._source: Optional[int] = None
        self._sending = threading.BoundedSemaphore(SENDING)

    def require(self) -> None:
        """Raise NotOfferedError where this compositor lets nobody at its clipboard."""
        self._manager()

    def get(self) -> str:
        """The text, "" where there is none; raises NoAnswerError where who holds it doesn't hand it over."""
        with self._connection.lock:
            self._open()
            self._connection.roundtrip("asking for the clipboard")
            with self._connection.told:
                selection = self._selection
                offered = self._offers.get(selection or 0, [])
                kind = next((text for text in TEXTS if text in offered), None)
            if selection is None or kind is None:
                return ""
            reader, writer = os.pipe()
            try:
                self._connection.request(selection, "receive", kind, writer)
            except BaseException:
                os.close(reader)
                raise
            finally:
                os.close(writer)
        return _read(reader)

    def set(self, text: str) -> None:
        """Put a text there; it stays as long as this connection, or until something else is put there."""
        data = text.encode("utf-8", "replace")
        if len(data) > LONGEST:
            raise TooLargeError(f"{len(data)} bytes are too many for the clipboard; {LONGEST} are allowed")
        with self._connection.lock:
            device = self._open()
            source = self._connection.request(
                self._manager(),
                "create_data_source",
                tell=lambda event, *told: self._asked(source, data, event, *told),
            )
            for kind in TEXTS:
                self._connection.request(source, "offer", kind)
            self._connection.request(device, "set_selection", source)
            self._source = source
            self._connection.roundtrip("setting the clipboard")

    def _manager(self) -> int:
        for interface in MANAGERS:
            if self._connection.version(interface):
                return self._connection.only(interface, 1, WHAT)
        return self._connection.only(MANAGERS[-1], 1, WHAT)

    def _open(self) -> int:
        if self._device is None:
            manager, seat = self._manager(), self._seat.object(WHAT)
            self._device = self._connection.request(manager, "get_data_device", seat, tell=self._told)
            self._connection.roundtrip("asking for the clipboard")
        if self._device < 0:
            raise NotOfferedError("the compositor has taken the clipboard away")
        return self._device

    # -- what the compositor tells, in the reading thread

    def _told(self, event: str, *arguments: int) -> None:
        if event == "data_offer":
            kinds: List[str] = []
            self._offers[arguments[0]] = kinds
            self._connection.listen(
                arguments[0],
                lambda event, kind: kinds.append(kind[:200]) if len(kinds) < KINDS else None,
            )
        elif event == "selection":
            self._selection = arguments[0] or None
            self._drop_others()
        elif event == "primary_selection":
            self._drop_others()
        elif event == "finished":
            self._device, self._selection = -1, None

    def _drop_others(self) -> None:
        for offer in [offer for offer in self._offers if offer != self._selection]:
            del self._offers[offer]
            self._connection.destroy(offer)

    def _asked(self, source: int, data: bytes, event: str, *arguments: Any) -> None:
        if event == "cancelled":
            self._connection.destroy(source)
        elif event == "send":
            self._send(data, arguments[1])

    def _send(self, data: bytes, descriptor: int) -> None:
        """Write the text in a thread of its own: who asked for it may never read it."""
        if not self._sending.acquire(blocking=False):
            os.close(descriptor)
            return

        def run() -> None:
            try:
                _write(descriptor, data)
            finally:
                self._sending.release()

        threading.Thread(target=run, name="clipboard", daemon=True).start()


def _read(reader: int) -> str:
    """All that comes until the end, at most LONGEST bytes."""
    end, received = time.monotonic() + TRANSFER, bytearray()
    try:
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([reader], [], [], left)[0]:
                raise NoAnswerError(f"who holds the clipboard didn't hand it over within {TRANSFER:g} s")
            data = os.read(reader, 1 << 16)
            if not data:
                return received.decode("utf-8", "replace")
            received += data
            if len(received) > LONGEST:
                raise TooLargeError(f"the clipboard holds more than {LONGEST} bytes")
    finally:
        os.close(reader)


def _write(descriptor: int, data: bytes) -> None:
    end, rest = time.monotonic() + TRANSFER, memoryview(data)
    try:
        os.set_blocking(descriptor, False)
        while rest and (left := end - time.monotonic()) > 0:
            if select.select([], [descriptor], [], left)[1]:
                with suppress(BlockingIOError):
                    rest = rest[os.write(descriptor, rest) :]
    except OSError:
        pass  # whoever asked for it is gone
    finally:
        os.close(descriptor)
