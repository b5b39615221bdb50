"""TCP: always with a token, and off loopback never without TLS."""

from __future__ import annotations

import ipaddress
import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Optional

from reflexarc_agent.channel import CHUNK, Channel, HostGoneError, SocketChannel
from reflexarc_agent.transports.listening import ListenError

MIN_TOKEN = 32
_BACKLOG = 128


class TcpListener:
    """Listens at an address; raises ListenError where that would let strangers in or bytes be read."""

    def __init__(self, host: str, port: int, token: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        family, address = _resolve(host, port)
        require_token(f"tcp:{host}:{port}", token)
        if tls is None and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
            raise ListenError(
                f"tcp:{host}:{port} is off loopback and needs TLS: give --tls-cert and --tls-key"
            )
        self.token: Optional[str] = token
        self._tls = tls
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise ListenError(f"can't listen on tcp:{host}:{port}: {error}") from error
        self.name = f"tcp:{host}:{self._socket.getsockname()[1]}"

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Channel:
        connected = self._socket.accept()[0]
        with suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plain = SocketChannel(connected)
        return plain if self._tls is None else TlsChannel(plain, self._tls)

    def close(self) -> None:
        self._socket.close()


class TlsChannel:
    """TLS over another channel; what is decrypted is handed out at once, so polling the descriptor is enough."""

    def __init__(self, inner: Channel, context: ssl.SSLContext) -> None:
        self._inner = inner
        self.shared = inner.shared
        self.read_fd, self.write_fd = inner.read_fd, inner.write_fd
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sealed = b""

    @property
    def pending(self) -> bool:
        return bool(self._sealed) or self._outgoing.pending > 0

    def open(self, deadline: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._move_on(deadline)
            except ssl.SSLError as error:
                self._flush()
                raise HostGoneError from error

    def receive(self) -> Optional[bytes]:
        data = self._inner.receive()
        if data is not None:
            self._incoming.write(data)
        # What came in one piece with the end of the handshake is here already.
        opened = bytearray()
        try:
            while piece := self._tls.read(CHUNK):
                opened += piece
        except ssl.SSLWantReadError:
            return bytes(opened) or None
        except ssl.SSLError as error:
            raise HostGoneError from error
        raise HostGoneError

    def send(self, data: memoryview) -> int:
        self._flush()
        if self.pending or not data:
            return 0
        try:
            taken = self._tls.write(data[:CHUNK])
        except ssl.SSLError as error:
            raise HostGoneError from error
        self._flush()
        return taken

    def finish(self) -> None:
        with suppress(ssl.SSLError, HostGoneError):
            self._tls.unwrap()
        with suppress(HostGoneError):
            self._flush()
        self._inner.finish()

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()

    def _flush(self) -> None:
        self._sealed += self._outgoing.read()
        self._sealed = self._sealed[self._inner.send(memoryview(self._sealed)) :]

    def _move_on(self, deadline: float) -> None:
        """Take the handshake one exchange further."""
        self._flush()
        poll = select.poll()
        poll.register(self.read_fd, select.POLLIN | (select.POLLOUT if self.pending else 0))
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise HostGoneError
        data = self._inner.receive()
        if data:
            self._incoming.write(data)


def require_token(name: str, token: Optional[str]) -> None:
    """Raise ListenError where there is no token that can't be guessed."""
    if token is None or len(token) < MIN_TOKEN:
        raise ListenError(f"{name} needs a token of at least {MIN_TOKEN} characters: give --token-file")


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a server's TLS context; raises ListenError where the files aren't a certificate and its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ListenError(f"can't use the certificate {certificate} with the key {key}: {error}") from error
    return context


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"can't resolve {host}: {error}") from error
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))
