"""The server over HTTP: loopback unless there is a token, Host and Origin checked, sizes and sessions bounded."""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from reflexarc.errors import ConfigError

MAX_BODY = 4 << 20
MAX_SESSIONS = 200
MIN_TOKEN = 16


def application(server: MCPServer[Any], host: str, port: int, token: str | None) -> ASGIApp:
    """The server as an ASGI application; raises ConfigError where it would be open to others without a token."""
    if not is_loopback(host) and token is None:
        raise ConfigError(f"{host} is not loopback: give --token-file, or listen on 127.0.0.1")
    if token is not None and len(token) < MIN_TOKEN:
        raise ConfigError(f"a token has at least {MIN_TOKEN} characters")
    names = [host, "localhost", "127.0.0.1", "[::1]"] if is_loopback(host) else [host]
    hosts = [f"{name}:{port}" for name in names]
    app: Starlette = server.streamable_http_app(
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{name}" for name in hosts]
        ),
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        host=host,
    )
    return app if token is None else _Bearer(app, token)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _Bearer:
    """Lets requests pass that bring the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})
