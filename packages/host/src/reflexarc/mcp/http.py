"""The server over HTTP: loopback unless there is a token, Host and Origin checked, sizes and rates bounded."""

from __future__ import annotations

import asyncio
import hmac
import os
import stat
import time
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reflexarc.errors import ConfigError
from reflexarc.mcp import brief

MAX_BODY = 4 << 20
MAX_SESSIONS = 200
MAX_CONNECTIONS = 256
MAX_RATE = 200
"""Requests a second, of all clients together."""
BODY_TIME = 15.0
"""Seconds in which the body of a request has come whole."""
SESSION_IDLE = 600.0
GRACE = 5.0
MIN_TOKEN, MAX_TOKEN = 16, 4096


def serve(server: MCPServer[Any], address: str, token_file: Path | None, said: Callable[[str], None]) -> None:
    """Serve at HOST:PORT until SIGTERM or SIGINT; said is told the address.

    Raises ConfigError for an address that is none, or would be open to others without a token.
    """
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"--http takes HOST:PORT, such as 127.0.0.1:8765, not {address!r}")
    app = application(server, host, int(port), None if token_file is None else read_token(token_file))
    brief.configure()
    said(f"reflexarc mcp: http://{address}/mcp")
    uvicorn.run(
        app, host=host.strip("[]"), port=int(port), log_config=None, access_log=False, server_header=False,
        limit_concurrency=MAX_CONNECTIONS, timeout_graceful_shutdown=int(GRACE),
    )  # fmt: skip


def application(
    server: MCPServer[Any],
    host: str,
    port: int,
    token: str | None,
    *,
    rate: int = MAX_RATE,
    body_time: float = BODY_TIME,
) -> ASGIApp:
    """The server as an ASGI application; raises ConfigError where it would be open to others without a token.

    Off loopback, where names of this host aren't known, the token stands for the check of Host; browsers, which send
    an Origin, are refused there.
    """
    loopback = is_loopback(host)
    if not loopback and token is None:
        raise ConfigError(f"{host} is not loopback: give --token-file, or listen on 127.0.0.1")
    if token is not None and len(token) < MIN_TOKEN:
        raise ConfigError(f"a token has at least {MIN_TOKEN} characters")
    hosts = [f"{name}:{port}" for name in dict.fromkeys((host, "localhost", "127.0.0.1", "[::1]"))]
    origins = [f"http://{name}" for name in hosts] if loopback else []
    app = server.streamable_http_app(
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=loopback, allowed_hosts=hosts, allowed_origins=origins
        ),
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE,
        host=host,
    )
    return Gate(app, token, origins, rate=rate, body_time=body_time)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """The bearer token in a file; raises ConfigError where it can't be read, or others can."""
    try:
        with path.open(encoding="ascii") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigError(f"others can read it: chmod 600 {path}", path=path)
            return file.read(MAX_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read the token: {error}", path=path) from error


class Gate:
    """Lets requests pass that bring the token, come from no foreign page, at a bearable rate and not too slowly."""

    def __init__(
        self, app: ASGIApp, token: str | None, origins: list[str], *, rate: int, body_time: float
    ) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._origins = [origin.encode() for origin in origins]
        self._rate = rate
        self._body_time = body_time
        self._left = float(rate)
        self._counted = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, _Timely(receive, self._body_time), send)
            return
        status, words, more = refusal
        headers = [(b"content-type", b"text/plain"), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": words + b"\n"})

    def _refusal(self, scope: Scope) -> tuple[int, bytes, list[tuple[bytes, bytes]]] | None:
        headers = dict(scope.get("headers", ()))
        if not self._has_room():
            return 429, b"too many requests", [(b"retry-after", b"1")]
        if self._expected is not None and not hmac.compare_digest(
            headers.get(b"authorization", b""), self._expected
        ):
            return 401, b"a bearer token is needed", [(b"www-authenticate", b"Bearer")]
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            return 403, b"pages of other origins are not served", []
        return None

    def _has_room(self) -> bool:
        now = time.monotonic()
        self._left = min(self._rate, self._left + (now - self._counted) * self._rate)
        self._counted = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class _Timely:
    """Receives the body of one request, and says that the client is gone where it doesn't come in time."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._deadline = time.monotonic() + seconds
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self._whole = True
            return {"type": "http.disconnect"}
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message
