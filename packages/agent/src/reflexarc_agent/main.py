"""The command `reflexarc-agent`."""

from __future__ import annotations

import argparse
import os
import signal
import stat
import sys
import threading
from types import FrameType
from typing import List, Optional, Sequence, Tuple

from reflexarc_agent import VERSION
from reflexarc_agent.backend import Backend
from reflexarc_agent.channel import PipeChannel
from reflexarc_agent.connection import Connection
from reflexarc_agent.files import Files
from reflexarc_agent.registry import Registry
from reflexarc_agent.server import Listener, Server
from reflexarc_agent.transports.unix import ListenError, UnixListener
from reflexarc_wire import PORT
from reflexarc_wire.requests import FEATURES


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the agent until it is told to stop; returns the exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if not (chosen.stdio or chosen.unix or chosen.tcp):
        parser.error("name at least one of --unix, --tcp and --stdio")
    if chosen.stdio and (chosen.unix or chosen.tcp):
        parser.error("--stdio serves the one host that started it: leave --unix and --tcp away")
    registry = Registry([Files(), *_desktop()], chosen.without)
    try:
        if chosen.stdio:
            _serve_stdio(registry)
        else:
            _serve(registry, _listeners(chosen))
    except ListenError as error:
        print(f"reflexarc-agent: {error}", file=sys.stderr)
        return 1
    return 0


def _desktop() -> List[Backend]:
    """The backends of the desktop session that the agent runs in."""
    if sys.platform == "linux":
        from reflexarc_agent.backends.linux.serving import backends

        return backends(os.environ)
    else:  # noqa: RET505 (mypy knows what is unreachable on a platform only so)
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reflexarc-agent", description="The agent inside a guest.")
    parser.add_argument("--version", action="version", version=f"reflexarc-agent {VERSION}")
    parser.add_argument("--unix", metavar="PATH", action="append", default=[], help="listen on a unix socket")
    parser.add_argument(
        "--tcp", metavar="HOST[:PORT]", action="append", default=[], help=f"port {PORT} if not named"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="what hosts must bring over TCP; readable by its owner only"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, PEM")
    parser.add_argument("--stdio", action="store_true", help="serve one host on standard input and output")
    parser.add_argument(
        "--without",
        metavar="FEATURE",
        action="append",
        default=[],
        choices=FEATURES,
        help=f"switch a feature off: {', '.join(FEATURES)}",
    )
    return parser


def _serve(registry: Registry, listeners: List[Listener]) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    server = Server(registry)
    for listener in listeners:
        server.listen(listener)
        print(f"reflexarc-agent: listening on {listener.name}", file=sys.stderr, flush=True)
    stop.wait()
    server.close()


def _serve_stdio(registry: Registry) -> None:
    def stop(number: int, frame: Optional[FrameType]) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    Connection(PipeChannel(sys.stdin.fileno(), sys.stdout.fileno()), registry).serve()


def _listeners(chosen: argparse.Namespace) -> List[Listener]:
    listeners: List[Listener] = [UnixListener(path) for path in chosen.unix]
    if not chosen.tcp:
        return listeners
    # TLS costs some 20 ms of start-up that most guests needn't pay.
    from reflexarc_agent.transports.tcp import TcpListener, tls_context

    token = _token(chosen.token_file) if chosen.token_file else None
    secured = tls_context(chosen.tls_cert, chosen.tls_key or chosen.tls_cert) if chosen.tls_cert else None
    return [*listeners, *(TcpListener(*_address(text), token, secured) for text in chosen.tcp)]


def _token(path: str) -> str:
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise ListenError(f"others can read {path}: chmod 600 {path}")
        with open(path, encoding="ascii") as file:
            return file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ListenError(f"can't read the token in {path}: {error}") from error


def _address(text: str) -> Tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, str(PORT)
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ListenError(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)
