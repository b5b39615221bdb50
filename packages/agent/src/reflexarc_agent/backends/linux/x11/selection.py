"""The text of a selection, handed to other clients and taken from them; one event loop, no thread of its own.

Source: ICCCM, 2.2 "Responsibilities of the Selection Owner", 2.7.2 "Incremental Property Transfers".
"""

from __future__ import annotations

import ctypes
import select
import time
from dataclasses import dataclass
from typing import Optional

from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import NoAnswerError, TooLargeError, X11Error
from reflexarc_agent.backends.linux.x11.libraries import Event, xlib

LIMIT = 1 << 20
"""Bytes of a text that are taken or handed over."""

PIECE = 1 << 16
TRANSFERS = 16
ANSWER = 2.0
"""Seconds that an owner is given to begin, and to go on."""

PROPERTY_NOTIFY, SELECTION_CLEAR, SELECTION_REQUEST, SELECTION_NOTIFY = 28, 29, 30, 31
PROPERTY_CHANGES = 1 << 22
REPLACE, NEW_VALUE, DELETED = 0, 0, 1
TEXTS = ("UTF8_STRING", "text/plain;charset=utf-8", "TEXT")
LATIN = "STRING"


@dataclass
class Transfer:
    """A text that is handed over in pieces, one each time that the requestor has deleted the last."""

    requestor: int
    property: int
    kind: int
    rest: bytes
    begun: float


class Selection:
    """One selection of one display, over a connection of its own; used by one thread at a time."""

    def __init__(self, name: str, selection: str = "CLIPBOARD") -> None:
        self.display = Display(name)
        x, self._handle = xlib(), self.display.handle
        atom = self.display.atom
        self._selection, self._property = atom(selection), atom("REFLEXARC_TEXT")
        self._targets, self._incr = atom("TARGETS"), atom("INCR")
        self._texts, self._latin = [atom(kind) for kind in TEXTS], atom(LATIN)
        self._window = int(x.XCreateSimpleWindow(self._handle, self.display.root, -9, -9, 1, 1, 0, 0, 0))
        x.XSelectInput(self._handle, self._window, PROPERTY_CHANGES)
        self.display.check("making a window for the clipboard")
        self._held: Optional[bytes] = None
        self._transfers: list[Transfer] = []

    def fileno(self) -> int:
        return int(xlib().XConnectionNumber(self._handle))

    def close(self) -> None:
        """Leave the display; a text that it had goes with it."""
        self.display.close()

    # -- owning

    def own(self, text: str) -> None:
        """Hand this text to whoever asks, as long as `serve` is called; raises X11Error, TooLargeError."""
        data = text.encode("utf-8", "replace")
        if len(data) > LIMIT:
            raise TooLargeError(
                f"a text of {len(data)} bytes is too large: {LIMIT} can be put on the clipboard"
            )
        xlib().XSetSelectionOwner(self._handle, self._selection, self._window, 0)
        self.display.check("taking the clipboard")
        if self._owner() != self._window:
            raise X11Error("the X server gave the clipboard to another client")
        self._held = data

    def serve(self) -> None:
        """Answer what other clients have asked since; raises X11Error once the server is gone."""
        while (event := self._next()) is not None:
            self._serve(event)
        self._transfers = [t for t in self._transfers if time.monotonic() - t.begun < 5 * ANSWER]

    def _serve(self, event: Event) -> None:
        if event.type == SELECTION_REQUEST:
            self._asked(event.request)
        elif event.type == SELECTION_CLEAR and self._owner() != self._window:
            self._held = None
        elif event.type == PROPERTY_NOTIFY and event.property.state == DELETED:
            for transfer in self._transfers:
                if (transfer.requestor, transfer.property) == (event.property.window, event.property.atom):
                    self._hand_on(transfer)
                    break

    def _asked(self, request: ctypes.Structure) -> None:
        """Put what was asked for on the requestor's window, and say so; a property of 0 says no."""
        place = request.property or request.target
        given = self._held is not None and request.selection == self._selection
        given = given and self._give(request.requestor, place, request.target)
        reply = Event()
        reply.selection.type = SELECTION_NOTIFY
        for field in ("requestor", "selection", "target", "time"):
            setattr(reply.selection, field, getattr(request, field))
        reply.selection.property = place if given else 0
        xlib().XSendEvent(self._handle, request.requestor, 0, 0, ctypes.byref(reply))
        self._refusable()

    def _give(self, requestor: int, place: int, target: int) -> bool:
        if target == self._targets:
            kinds = [self._targets, *self._texts, self._latin]
            data = bytes((ctypes.c_ulong * len(kinds))(*kinds))
            self._write(requestor, place, self.display.atom("ATOM"), 32, data, len(kinds))
            return True
        held = self._held or b""
        if target == self._latin:
            held = held.decode("utf-8").encode("latin-1", "replace")
        elif target not in self._texts:
            return False
        kind = self._texts[0] if target == self.display.atom("TEXT") else target
        if len(held) <= PIECE:
            self._write(requestor, place, kind, 8, held, len(held))
            return True
        if len(self._transfers) >= TRANSFERS:
            return False
        xlib().XSelectInput(self._handle, requestor, PROPERTY_CHANGES)
        self._write(requestor, place, self._incr, 32, bytes(ctypes.c_ulong(len(held))), 1)
        self._transfers.append(Transfer(requestor, place, kind, held, time.monotonic()))
        return True

    def _hand_on(self, transfer: Transfer) -> None:
        """Put the next piece there; an empty one ends it."""
        piece, transfer.rest = transfer.rest[:PIECE], transfer.rest[PIECE:]
        self._write(transfer.requestor, transfer.property, transfer.kind, 8, piece, len(piece))
        transfer.begun = time.monotonic()
        if not piece:
            self._transfers.remove(transfer)
            if transfer.requestor not in [other.requestor for other in self._transfers]:
                xlib().XSelectInput(self._handle, transfer.requestor, 0)
        self._refusable()

    def _write(self, window: int, place: int, kind: int, size: int, data: bytes, count: int) -> None:
        xlib().XChangeProperty(self._handle, window, place, kind, size, REPLACE, data, count)

    def _refusable(self) -> None:
        """Send what was written; a requestor that is gone meanwhile is no error."""
        try:
            self.display.check("handing over the clipboard")
        except X11Error:
            self.display.alive()

    # -- taking

    def text(self) -> str:
        """The selection's text, "" where nobody has one; raises NoAnswerError, TooLargeError, X11Error."""
        if self._held is not None and self._owner() == self._window:
            return self._held.decode("utf-8")
        if not self._owner():
            return ""
        for kind, encoding in ((self._texts[0], "utf-8"), (self._latin, "latin-1")):
            found = self._converted(kind)
            if found is not None:
                return found.decode(encoding, "replace")
        return ""

    def _owner(self) -> int:
        return int(xlib().XGetSelectionOwner(self._handle, self._selection))

    def _converted(self, kind: int) -> Optional[bytes]:
        """The selection as that kind, None where its owner doesn't have it so."""
        x = xlib()
        x.XDeleteProperty(self._handle, self._window, self._property)
        x.XConvertSelection(self._handle, self._selection, kind, self._property, self._window, 0)
        x.XFlush(self._handle)
        while True:
            event = self._awaited(SELECTION_NOTIFY)
            if (event.selection.selection, event.selection.target) == (self._selection, kind):
                break
        if not event.selection.property:
            return None
        found, actual = self.display.taken(self._window, self._property, LIMIT)
        return self._incremental() if actual == self._incr else _bounded(found)

    def _incremental(self) -> bytes:
        """Take the pieces; each is deleted when it is read, which asks for the next."""
        found = bytearray()
        while True:
            event = self._awaited(PROPERTY_NOTIFY).property
            if event.window != self._window or event.atom != self._property or event.state != NEW_VALUE:
                continue
            piece, _ = self.display.taken(self._window, self._property, LIMIT)
            if not piece:
                return bytes(found)
            found += _bounded(bytes(found) + piece)[len(found) :]

    def _awaited(self, kind: int) -> Event:
        """The next event of a kind, while others are served; raises NoAnswerError."""
        deadline = time.monotonic() + ANSWER
        while True:
            while (event := self._next()) is not None:
                if event.type == kind and not (
                    kind == PROPERTY_NOTIFY and event.property.window != self._window
                ):
                    return event
                self._serve(event)
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoAnswerError(f"the client that has the clipboard doesn't answer within {ANSWER:g} s")
            select.select([self.fileno()], [], [], left)

    def _next(self) -> Optional[Event]:
        with self.display.lock:
            self.display.alive()
            if not xlib().XPending(self._handle):
                self.display.alive()
                return None
            event = Event()
            xlib().XNextEvent(self._handle, ctypes.byref(event))
        return event


def _bounded(found: bytes) -> bytes:
    if len(found) > LIMIT:
        raise TooLargeError(f"the clipboard holds more than {LIMIT} bytes")
    return found
