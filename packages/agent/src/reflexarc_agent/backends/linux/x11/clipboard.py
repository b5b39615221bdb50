"""The clipboard of a display, kept by a thread of its own as long as the agent lives."""

from __future__ import annotations

import os
import queue
import select
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Callable

from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.selection import Selection

HOUSEKEEPING = 5.0


class Clipboard:
    """Gives and takes the clipboard's text; callable from any thread. Raises X11Error where there is no display."""

    def __init__(self, name: str) -> None:
        self._selection = Selection(name)
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._reader, self._writer = os.pipe()
        self._ending = threading.Lock()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="clipboard", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the display is still there."""
        return not self._ended

    def get(self) -> str:
        """The text, "" where there is none; raises X11Error, of which TooLargeError and NoAnswerError are kinds."""
        return str(self._do(self._selection.text))

    def set(self, text: str) -> None:
        """Put a text there; raises as `get` does."""
        self._do(lambda: self._selection.own(text))

    def close(self) -> None:
        """Leave the display."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            os.close(self._writer)
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _do(self, act: Callable[[], Any]) -> Any:
        done: Future[Any] = Future()
        with self._ending:
            if self._ended:
                raise X11Error("the connection to the X server has ended: ask again")
            self._asked.put((act, done))
            os.write(self._writer, b"\0")
        return done.result()

    def _run(self) -> None:
        try:
            with suppress(X11Error):
                while self._turn():
                    pass
        finally:
            with self._ending:
                if not self._ended:
                    self._ended = True
                    os.close(self._writer)
            os.close(self._reader)
            self._selection.close()
            self._refuse()

    def _turn(self) -> bool:
        """Serve other clients, and one request; False at the end."""
        ready, _, _ = select.select([self._reader, self._selection.fileno()], [], [], HOUSEKEEPING)
        if self._reader in ready:
            if not os.read(self._reader, 1):
                return False
            act, done = self._asked.get()
            try:
                done.set_result(act())
            except Exception as error:  # noqa: BLE001 (it is the asker's, who waits for it)
                done.set_exception(error)
        self._selection.serve()
        return True

    def _refuse(self) -> None:
        """Answer what was asked and can't be done any more."""
        with suppress(queue.Empty):
            while True:
                self._asked.get_nowait()[1].set_exception(
                    X11Error("the connection to the X server has ended: ask again")
                )
