"""Where hosts come in by connecting to the guest."""

from __future__ import annotations

import select
from contextlib import closing
from typing import Callable, Optional, Protocol

from reflexarc_agent.channel import Channel
from reflexarc_agent.stopping import Stop, notice

Serve = Callable[[Channel, Optional[str]], None]
_PAUSE = 0.1
RETRY = 2.0
"""Seconds after which a device of the guest that isn't there is looked for again."""


class ListenError(Exception):
    """The agent can't listen there; the text says why and what to do."""


class Listener(Protocol):
    """A socket that listens; `token` is what hosts must bring, `name` says where it is."""

    name: str
    token: Optional[str]

    def fileno(self) -> int: ...

    def accept(self) -> Channel:
        """Take the host that waits; raises OSError, PermissionError where that host isn't to be served."""

    def close(self) -> None: ...


class Listening:
    """Hands over the hosts that a listener accepts."""

    def __init__(self, listener: Listener) -> None:
        self.name = listener.name
        self._listener = listener

    def run(self, serve: Serve, stop: Stop) -> None:
        with closing(self._listener) as listener:
            while stop.wait({listener.fileno(): select.POLLIN}) is not None:
                try:
                    serve(listener.accept(), listener.token)
                except (BlockingIOError, ConnectionAbortedError, PermissionError):
                    continue
                except OSError:
                    # Out of descriptors or memory, mostly: what is open may end soon.
                    stop.wait(timeout=_PAUSE)


class ListeningLater:
    """Listens as soon as it can: a guest's devices may come after the agent, or never."""

    def __init__(self, name: str, listen: Callable[[], Listener]) -> None:
        self.name = name
        self._listen = listen

    def run(self, serve: Serve, stop: Stop) -> None:
        told = ""
        while True:
            try:
                listening = Listening(self._listen())
            except (OSError, ListenError) as error:
                if told != str(error):
                    told = str(error)
                    notice(f"waiting for {self.name}: {told}")
                if stop.wait(timeout=RETRY) is None:
                    return
                continue
            notice(f"listening on {self.name}")
            listening.run(serve, stop)
            return
