"""Who may speak to the server over HTTP, how often, and how slowly."""

from __future__ import annotations

import asyncio
import hmac
import time

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_RATE = 200
"""Requests a second, of one peer."""
MAX_PEERS = 256
BODY_TIME = 15.0
"""Seconds in which the body of a request has come whole."""
CLOSE = (b"connection", b"close")
Refusal = tuple[int, bytes, tuple[bytes, bytes]]


class Gate:
    """Lets requests pass that bring the token, come from no foreign page, at a bearable rate and not too slowly."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        origins: list[str],
        *,
        rate: float = MAX_RATE,
        body_time: float = BODY_TIME,
    ) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._origins = [origin.encode() for origin in origins]
        self._rate = Rate(rate)
        self._body_time = body_time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            timely = _Timely(receive, send, self._body_time)
            await self._app(scope, timely.receive, timely.send)
            return
        status, words, header = refusal
        headers = [(b"content-type", b"text/plain"), CLOSE, header]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": words + b"\n"})

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = dict(scope.get("headers", ()))
        # First of all: what strangers send counts against nobody's rate.
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            return 401, b"a bearer token is needed", (b"www-authenticate", b"Bearer")
        if not self._rate.has_room(str((scope.get("client") or ("",))[0])):
            return 429, b"too many requests", (b"retry-after", b"1")
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            return 403, b"pages of other origins are not served", (b"vary", b"origin")
        return None


class Rate:
    """How many requests each peer may still send: so many a second, and as many at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._peers: dict[str, tuple[float, float]] = {}

    def has_room(self, peer: str) -> bool:
        """Tell whether a peer may send one more now, and count it."""
        now = time.monotonic()
        most = max(1.0, self._rate)
        left, counted = self._peers.pop(peer, (most, now))
        left = min(most, left + (now - counted) * self._rate)
        self._peers[peer] = (left - 1 if left >= 1 else left, now)
        if len(self._peers) > MAX_PEERS:
            del self._peers[next(iter(self._peers))]
        return left >= 1


class Connection(H11Protocol):
    """A connection on which the head of a request comes within the time that one may be idle.

    Where all places are taken, the one that has waited longest for its first request makes room for a newer one.
    """

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._await_no_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await_no_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(self.timeout_keep_alive, self._drop)

    def _await_no_head(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _drop(self) -> None:
        self._await_no_head()
        self.transport.abort()

    def _make_room(self) -> None:
        waiting = [
            (one._overdue.when(), one)
            for one in self.connections
            if isinstance(one, Connection) and one._overdue is not None
        ]
        if waiting:
            min(waiting, key=lambda pair: pair[0])[1]._drop()


class _Timely:
    """One request: where its body doesn't come in time the client is said to be gone, and told so."""

    def __init__(self, receive: Receive, send: Send, seconds: float) -> None:
        self._receive, self._send = receive, send
        self._deadline = time.monotonic() + seconds
        self._whole = self._late = False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self._whole = self._late = True
            return {"type": "http.disconnect"}
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self._late and message["type"] == "http.response.start":
            message = {**message, "status": 408, "headers": [*message.get("headers", ()), CLOSE]}
        await self._send(message)
