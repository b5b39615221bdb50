"""The options that name transports, and the sources of hosts that they mean."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import stat
from functools import partial
from typing import Callable, List, Optional, Tuple, Union

from reflexarc_agent.transports import vsock
from reflexarc_agent.transports.calling import Calling
from reflexarc_agent.transports.listening import ListenError, Listening, ListeningLater
from reflexarc_agent.transports.unix import UnixListener
from reflexarc_agent.transports.virtio_serial import SerialDevice
from reflexarc_wire import PORT

NAMES = ("unix", "tcp", "vsock", "virtio-serial", "connect")
_HOST = f"vsock:{PORT}"
_CONNECT_TIMEOUT = 5.0

AnySource = Union[Listening, ListeningLater, SerialDevice, Calling]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each of `NAMES`, and those of TCP."""

    def add(name: str, metavar: str, default: Optional[str], about: str) -> None:
        parser.add_argument(
            f"--{name}",
            metavar=metavar,
            action="append",
            nargs="?" if default else None,
            const=default,
            default=[],
            help=about,
        )

    add("unix", "PATH", None, "listen on a unix socket that only its owner can connect to")
    add(
        "tcp",
        "HOST[:PORT]",
        None,
        f"listen on TCP, port {PORT} if not named; needs a token, off loopback TLS too",
    )
    add("vsock", "PORT", str(PORT), f"listen on vsock, port {PORT} if not named, for the host only")
    add("virtio-serial", "NAME", None, "serve a virtio-serial port, or the serial device at a path")
    add(
        "connect",
        "TARGET",
        _HOST,
        f"connect to the host instead, keeping one spare connection open: {_HOST} if not named, vsock:PORT, "
        "unix:PATH, or tcp:HOST:PORT on loopback with a token",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="what hosts must bring over TCP; readable by its owner only"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, PEM")


def any_chosen(chosen: argparse.Namespace) -> bool:
    return any(getattr(chosen, name.replace("-", "_")) for name in NAMES)


def sources(chosen: argparse.Namespace) -> List[AnySource]:
    """What the options name; raises ListenError where one can't be, now or ever."""
    token = _token(chosen.token_file) if chosen.token_file else None
    found: List[AnySource] = [Listening(UnixListener(path)) for path in chosen.unix]
    found += _tcp(chosen, token)
    for text in chosen.vsock:
        port = _port(text)
        found.append(ListeningLater(f"vsock:{port}", partial(vsock.VsockListener, port)))
    found += [SerialDevice(device) for device in chosen.virtio_serial]
    return [*found, *(_calling(target, token) for target in chosen.connect)]


def _tcp(chosen: argparse.Namespace, token: Optional[str]) -> List[AnySource]:
    if not chosen.tcp:
        return []
    # TLS costs some 20 ms of start-up that most guests needn't pay.
    from reflexarc_agent.transports.tcp import TcpListener, tls_context

    secured = tls_context(chosen.tls_cert, chosen.tls_key or chosen.tls_cert) if chosen.tls_cert else None
    return [Listening(TcpListener(*_address(text), token, secured)) for text in chosen.tcp]


def _calling(target: str, token: Optional[str]) -> Calling:
    kind, _, rest = target.partition(":")
    if kind == "vsock":
        return Calling(target, partial(vsock.connect, vsock.CID_HOST, _port(rest), _CONNECT_TIMEOUT))
    if kind == "unix" and rest:
        return Calling(target, partial(_connect_unix, rest))
    if kind == "tcp":
        return Calling(target, _connect_tcp(*_address(rest), token), token)
    raise ListenError(f"--connect {target}: name vsock:PORT, unix:PATH or tcp:HOST:PORT")


def _connect_unix(path: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(_CONNECT_TIMEOUT)
        connected.connect(path)
    except BaseException:
        connected.close()
        raise
    return connected


def _connect_tcp(host: str, port: int, token: Optional[str]) -> Callable[[], socket.socket]:
    from reflexarc_agent.transports.tcp import require_token

    require_token(f"tcp:{host}:{port}", token)
    if host != "localhost" and not _is_loopback(host):
        raise ListenError(f"tcp:{host}:{port} is off loopback: let the host come in by --tcp, with TLS")
    return partial(socket.create_connection, (host, port), _CONNECT_TIMEOUT)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    return host.strip("[]"), _port(port, of=f"{text!r} is no HOST:PORT", most=(1 << 16) - 1)


def _port(text: str, of: str = "", most: int = (1 << 32) - 2) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= most):
        raise ListenError(of or f"{text!r} is no port of vsock")
    return int(text)
