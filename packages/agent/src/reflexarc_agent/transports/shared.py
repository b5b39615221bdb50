"""Serves the many conversations of one stream: each is a connection like any other, over a socket pair of its own."""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from typing import Deque, Dict, Optional

from reflexarc_agent.channel import CHUNK, HostGoneError, SocketChannel
from reflexarc_agent.stopping import Stop
from reflexarc_agent.transports.listening import Serve
from reflexarc_wire.errors import Id
from reflexarc_wire.shared import Astray, Began, Left, Said, SharedGuest

# More than a host may send ahead: a line, and the window of a command's input.
INBOX = 4 << 20
_OUTBOX = 1 << 18
_ANSWERS = 1 << 16
_REMEMBERED = 4096
_FAILED = select.POLLHUP | select.POLLERR | select.POLLNVAL


class _Conversation:
    """The stream's end of one; `inbox` is what its connection hasn't taken yet."""

    def __init__(self, ours: socket.socket) -> None:
        ours.setblocking(False)
        self.socket = ours
        self.inbox = bytearray()

    def interest(self, *, readable: bool) -> int:
        return (select.POLLOUT if self.inbox else 0) | (select.POLLIN if readable else 0)

    def push(self) -> None:
        """Pass on what the connection takes now."""
        try:
            sent = self.socket.send(self.inbox)
        except BlockingIOError:
            return
        except OSError:
            sent = len(self.inbox)
        del self.inbox[:sent]

    def pull(self) -> Optional[bytes]:
        """Return what the connection says, None if nothing, b"" at its end."""
        try:
            return self.socket.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""


class SharedStream:
    """Takes a descriptor's stream apart, and puts the conversations' lines together into it.

    Lines go out whole, one conversation after the other. A conversation whose connection takes nothing keeps no
    other waiting: it is ended when too much has come for it.
    """

    def __init__(self, fd: int, serve: Serve) -> None:
        self._fd = fd
        self._serve = serve
        self._guest = SharedGuest()
        self._nonce = ""
        self._open: Dict[Id, _Conversation] = {}
        self._over: Deque[Id] = deque(maxlen=_REMEMBERED)
        # What goes out: bytes, then whole lines, which wait for the end of the line that `_speaking` is in.
        self._outbox = bytearray(self._guest.restarted())
        self._answers = bytearray()
        self._speaking: Optional[Id] = None

    def run(self, stop: Stop) -> bool:
        """Serve until the host is gone, then True, or the agent ends; raises OSError where the device is gone."""
        try:
            while True:
                interests = {self._fd: self._interest()}
                for id_, conversation in self._open.items():
                    mask = conversation.interest(readable=self._may_speak(id_))
                    interests[conversation.socket.fileno()] = mask
                # Polled for nothing, a closed one would still be told of, again and again.
                ready = stop.wait({fd: mask for fd, mask in interests.items() if mask})
                if ready is None:
                    return False
                self._turn(ready)
        except HostGoneError:
            return True
        finally:
            self._end_all()

    def _interest(self) -> int:
        heard = select.POLLIN if len(self._answers) < _ANSWERS else 0
        return heard | (select.POLLOUT if self._outbox else 0)

    def _may_speak(self, id_: Id) -> bool:
        return len(self._outbox) < _OUTBOX and self._speaking in (None, id_)

    def _turn(self, ready: Dict[int, int]) -> None:
        if ready.get(self._fd, 0) & (select.POLLIN | _FAILED):
            self._hear()
        for id_, conversation in list(self._open.items()):
            events = ready.get(conversation.socket.fileno(), 0)
            if events & select.POLLOUT:
                conversation.push()
            if events & (select.POLLIN | _FAILED) and self._may_speak(id_):
                self._tell(id_, conversation)
        if self._speaking is None:
            self._outbox += self._answers
            self._answers.clear()
        if self._outbox:
            self._write()

    def _hear(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise HostGoneError
        self._guest.feed(data)
        while (found := self._guest.next()) is not None:
            if isinstance(found, Said):
                self._pass_on(found)
            elif isinstance(found, Left):
                self._end(found.id)
            elif isinstance(found, Began):
                self._begin(found)
            else:
                self._refuse(found)

    def _begin(self, began: Began) -> None:
        if began.nonce != self._nonce:
            self._nonce = began.nonce
            self._end_all()
        self._answers += self._guest.begun(began)

    def _refuse(self, astray: Astray) -> None:
        """Answer what may be a host's; to answer noise before a sync would be to talk to an echo."""
        if self._guest.synced:
            self._answers += self._guest.refusal(astray)

    def _pass_on(self, said: Said) -> None:
        conversation = self._open.get(said.id)
        if conversation is None:
            # What was on its way when its conversation ended begins no other.
            if said.id in self._over or b'"op"' not in said.line:
                return
            ours, theirs = socket.socketpair()
            conversation = self._open[said.id] = _Conversation(ours)
            self._serve(SocketChannel(theirs, shared=True), None)
        conversation.inbox += said.line
        conversation.push()
        if len(conversation.inbox) > INBOX:
            self._answers += self._guest.end(said.id)
            self._end(said.id)

    def _tell(self, id_: Id, conversation: _Conversation) -> None:
        data = conversation.pull()
        if data == b"":
            self._answers += self._guest.end(id_)
            self._end(id_)
        at = 0
        while data and at < len(data):
            if self._speaking is None:
                self._outbox += self._guest.prefix(id_)
                at += 1
            end = data.find(b"\n", at) + 1
            self._outbox += data[at : end or None]
            at, self._speaking = (end, None) if end else (len(data), id_)

    def _write(self) -> None:
        try:
            with memoryview(self._outbox) as waiting:
                sent = os.write(self._fd, waiting)
        except BlockingIOError:
            return
        del self._outbox[:sent]

    def _end(self, id_: Id) -> None:
        """Close a conversation, which kills its command; half a line of it is made one that means nothing."""
        conversation = self._open.pop(id_, None)
        if conversation is not None:
            conversation.socket.close()
            self._over.append(id_)
        if self._speaking is not None and self._speaking == id_:
            self._outbox += b"\n"
            self._speaking = None

    def _end_all(self) -> None:
        for conversation in self._open.values():
            conversation.socket.close()
        self._open.clear()
        self._over.clear()
        self._outbox.clear()
        self._answers.clear()
        self._speaking = None
