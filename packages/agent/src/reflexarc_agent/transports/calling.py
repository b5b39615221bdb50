"""Where hosts come in although the guest is the one that connects: one spare connection is always open."""

from __future__ import annotations

import select
import socket
from typing import Callable, Optional

from reflexarc_agent.channel import PEER_CLOSED, SocketChannel
from reflexarc_agent.stopping import Stop, notice
from reflexarc_agent.transports.listening import Serve

_SHORTEST, _LONGEST = 0.2, 5.0


class Calling:
    """Calls a host; the first bytes on a connection make it busy, and the next is opened."""

    def __init__(self, name: str, connect: Callable[[], socket.socket], token: Optional[str] = None) -> None:
        self.name = name
        self._connect = connect
        self._token = token

    def run(self, serve: Serve, stop: Stop) -> None:
        pause, told = 0.0, ""
        while stop.wait(timeout=pause) is not None:
            pause = min(max(_SHORTEST, 2 * pause), _LONGEST)
            try:
                spare = self._connect()
            except OSError as error:
                if told != str(error):
                    told = str(error)
                    notice(f"waiting for {self.name}: {told}")
                continue
            if told:
                told = ""
                notice(f"connected to {self.name}")
            if _is_taken(spare, stop):
                serve(SocketChannel(spare), self._token)
                pause = 0.0
            else:
                spare.close()


def _is_taken(spare: socket.socket, stop: Stop) -> bool:
    """Wait for the host to speak; False if it closed instead, or the agent ends."""
    if stop.wait({spare.fileno(): select.POLLIN | PEER_CLOSED}) is None:
        return False
    try:
        return bool(spare.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
