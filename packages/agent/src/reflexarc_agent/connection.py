"""One host's connection: its requests one after the other, or its one command."""

from __future__ import annotations

import errno
import hmac
import sys
import time
import traceback
from contextlib import closing
from typing import Optional, Union

from reflexarc_agent import channel as channels
from reflexarc_agent import child
from reflexarc_agent.backend import RefusalError
from reflexarc_agent.channel import Channel, HostGoneError
from reflexarc_agent.exec import Execution
from reflexarc_agent.registry import Registry, Session
from reflexarc_wire import Asked, GuestEnd, Malformed, WireError, write_refusal, write_reply
from reflexarc_wire.errors import BAD_REQUEST, NOT_AUTHORIZED, OS_ERROR
from reflexarc_wire.replies import Failure
from reflexarc_wire.requests import Exec, Hello

# How long a stranger may take to say who it is.
HELLO_TIMEOUT = 10.0
_LINGER = 1.0
SHARED_WINDOW = 1 << 20


class Connection:
    """Serves a channel until its host is gone; with a token, only after a hello that carries it."""

    def __init__(self, channel: Channel, registry: Registry, token: Optional[str] = None) -> None:
        self._channel = channel
        self._registry = registry
        self._token = token
        self._end = GuestEnd()
        self._deadline = time.monotonic() + HELLO_TIMEOUT if token else None

    def serve(self) -> None:
        """Answer what comes; whatever goes wrong ends this connection and nothing else."""
        try:
            with closing(self._channel), closing(self._registry.open()) as session:
                self._channel.open(time.monotonic() + HELLO_TIMEOUT)
                self._converse(session)
                channels.linger(self._channel, _LINGER)
        except HostGoneError:
            pass
        except Exception:  # noqa: BLE001
            traceback.print_exc(file=sys.stderr)

    def _converse(self, session: Session) -> None:
        """Serve requests until one ends the conversation; raises HostGoneError where the host does."""
        try:
            while self._answer(self._next(), session):
                pass
        except WireError as error:
            # Amid a command's output an answer would be glued to half a line.
            if not self._end.executing:
                self._send(write_reply(_failure(error)))

    def _next(self) -> Union[Asked, Malformed]:
        while True:
            found = self._end.next()
            if isinstance(found, (Asked, Malformed)):
                return found
            self._end.feed(channels.receive(self._channel, self._deadline))

    def _answer(self, asked: Union[Asked, Malformed], session: Session) -> bool:
        """Answer one request, and return whether another may follow."""
        admitted = self._admit(asked)
        try:
            if isinstance(asked, Malformed):
                raise asked.error
            if not admitted:
                raise RefusalError(NOT_AUTHORIZED, "this agent wants a hello with its token first")
            if isinstance(asked.request, Exec):
                self._execute(asked.request)
                return False
            self._send(write_reply(session.perform(asked.request), asked.id))
        except (WireError, RefusalError, OSError) as error:
            self._send(write_refusal(_failure(error), asked.id, executing=self._end.executing))
        return admitted and not self._end.executing

    def _admit(self, asked: Union[Asked, Malformed]) -> bool:
        """Tell whether the host may be served; a hello with the token opens the way for all that follows."""
        if self._token is not None and isinstance(asked, Asked) and isinstance(asked.request, Hello):
            offered = (asked.request.token or "").encode()
            if hmac.compare_digest(offered, self._token.encode()):
                self._token = self._deadline = None
        return self._token is None

    def _execute(self, request: Exec) -> None:
        self._registry.require(request.feature)
        if self._channel.shared and not 0 < (request.window or 0) <= SHARED_WINDOW:
            raise RefusalError(
                BAD_REQUEST, f"on a shared stream a command needs a `window` of at most {SHARED_WINDOW} bytes"
            )
        Execution(request, child.start(request), self._channel, self._end).run()

    def _send(self, line: bytes) -> None:
        channels.send(self._channel, line, self._deadline)


def _failure(error: Union[WireError, RefusalError, OSError]) -> Failure:
    if isinstance(error, OSError):
        return Failure(str(error), OS_ERROR, errno.errorcode.get(error.errno or 0))
    return Failure(str(error), error.code, getattr(error, "detail", None))
