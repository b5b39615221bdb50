"""The server over HTTP: for those who bring the token, on loopback unless it is said; sizes and rates bounded."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from reflexarc.errors import ConfigError
from reflexarc.mcp import brief
from reflexarc.mcp.address import is_loopback, parsed
from reflexarc.mcp.gate import BODY_TIME, MAX_RATE, Connection, Gate
from reflexarc.mcp.token import own_token_file, read_token

MAX_BODY = 4 << 20
MAX_SESSIONS = 200
MAX_CONNECTIONS = 256
IDLE_TIME = 5
"""Seconds in which the head of a request comes on a connection that has none under way."""
SESSION_IDLE = 600.0
GRACE = 5


def serve(server: MCPServer[Any], address: str, token_file: Path | None, said: Callable[[str], None]) -> None:
    """Serve at HOST:PORT until SIGTERM, SIGINT or SIGHUP; said is told the address and where the token is.

    Raises ConfigError for an address that is none, can't be had, or would be open to others with no token of theirs.
    """
    host, port = parsed(address)
    if token_file is None and not is_loopback(host):
        raise ConfigError(f"{host} is not loopback: give --token-file, or listen on 127.0.0.1")
    path = own_token_file() if token_file is None else token_file
    app = application(server, host, port, read_token(path))
    with listening(host, port) as listener:
        brief.configure()
        said(f"reflexarc mcp: http://{address}/mcp, for those who bring the token in {path}")
        serving = listener_of(app)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which is how it outlives its terminal
            signal.signal(signal.SIGHUP, serving.handle_exit)
        with suppress(KeyboardInterrupt):
            serving.run(sockets=[listener])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises ConfigError where it can't."""
    bare = host.strip("[]")
    try:
        return socket.create_server((bare, port), family=socket.AF_INET6 if ":" in bare else socket.AF_INET)
    except OSError as error:
        raise ConfigError(
            f"can't listen on {host}:{port}: {error.strerror}; take another port, or end the program that has it"
        ) from error


def listener_of(
    app: ASGIApp, *, connections: int = MAX_CONNECTIONS, idle_time: int = IDLE_TIME
) -> uvicorn.Server:
    """What serves the application on a socket."""
    return uvicorn.Server(
        uvicorn.Config(
            app, http=Connection, ws="none", log_config=None, access_log=False, server_header=False,
            limit_concurrency=connections, timeout_keep_alive=idle_time, timeout_graceful_shutdown=GRACE,
        )
    )  # fmt: skip


def application(
    server: MCPServer[Any],
    host: str,
    port: int,
    token: str,
    *,
    rate: float = MAX_RATE,
    body_time: float = BODY_TIME,
) -> ASGIApp:
    """The server as an ASGI application for those who bring the token.

    Off loopback, where names of this host aren't known, the token stands for the check of Host; browsers, which send
    an Origin, are refused there.
    """
    loopback = is_loopback(host)
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
