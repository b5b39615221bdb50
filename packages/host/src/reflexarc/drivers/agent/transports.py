"""Ways to the agent that have a connection for each conversation."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reflexarc.drivers.agent.config import AgentConfig
from reflexarc.drivers.agent.serial import VirtioSerial
from reflexarc.drivers.agent.streams import CHUNK, SocketStream, Stream, Transport, UnreachableError
from reflexarc.errors import ConfigError
from reflexarc.machine.lock import FileLock

AF_VSOCK = 40
"""The number of the address family, on Linux and Darwin alike; not every Python names it."""

MAX_OK, MAX_WORDS = 64, 4096
SPARE = 8
"""How many connections of agents that call wait here at most; the newest are kept."""

EXIT_TIMEOUT = 2.0


OwnVsock = Callable[[], Path | int | None]
"""Where the vsock of a running machine is: a socket that takes CONNECT, or the guest's number; None: not there."""


def transport_of(
    config: AgentConfig, *, machine: str, state_dir: Path, own_vsock: OwnVsock = lambda: None
) -> Transport:
    """The way that the settings name; raises ConfigError where its certificate can't be used."""
    path = config.path or Path()
    if config.own_vsock:
        return Own(own_vsock, config.port, reverse=config.transport == "reverse")
    match config.transport:
        case "unix":
            return Unix(path)
        case "tcp":
            return Tcp(config.host, config.port, _tls(config, machine), config.server_name)
        case "vsock":
            return Vsock(config.cid, config.port)
        case "hybrid":
            return Hybrid(path, config.port)
        case "virtio_serial":
            return VirtioSerial(path, state_dir / "agent-serial.lock")
        case "stdio":
            return Program(config.command)
        case _:
            return Reverse(Path(f"{path}_{config.port}"))


class Unix:
    """A unix socket of this host, on which an agent listens."""

    def __init__(self, path: Path) -> None:
        self.name = f"unix:{path}"
        self._path = path

    async def connect(self) -> SocketStream:
        return SocketStream(*await asyncio.open_unix_connection(self._path, limit=CHUNK))

    async def close(self) -> None:
        """Nothing is kept."""


class Tcp:
    """TCP, with TLS where there is a context for it."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, server_name: str) -> None:
        self.name = f"tcp:{host}:{port}"
        self._host, self._port, self._tls, self._server_name = host, port, tls, server_name

    async def connect(self) -> SocketStream:
        server_name = self._server_name if self._tls else None
        try:
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, server_hostname=server_name, limit=CHUNK
            )
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"its certificate is not the one that is expected ({error.verify_message}); look at ca and server_name"
            ) from error
        except ssl.SSLError as error:
            raise UnreachableError(f"TLS failed ({error.reason or error})") from error
        connected = writer.get_extra_info("socket")
        if connected is not None:
            # A guest that is cut off says nothing; without this a command would be waited for for ever.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return SocketStream(reader, writer)

    async def close(self) -> None:
        """Nothing is kept."""


class Vsock:
    """AF_VSOCK to a guest of this host.

    Source: Linux, include/uapi/linux/vm_sockets.h; xnu, bsd/sys/vsock.h.
    """

    def __init__(self, cid: int, port: int) -> None:
        self.name = f"vsock:{cid}:{port}"
        self._cid, self._port = cid, port

    async def connect(self) -> SocketStream:
        connected = await asyncio.to_thread(self._connected)
        return SocketStream(*await asyncio.open_connection(sock=connected, limit=CHUNK))

    def _connected(self) -> socket.socket:
        """Connect; the kernel gives it up after 2 s."""
        found = socket.socket(AF_VSOCK, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "AF_VSOCK"):
                found.connect((self._cid, self._port))
            else:
                connect_by_libc(found, vsock_address(self._cid, self._port))
            found.setblocking(False)
        except BaseException:
            found.close()
            raise
        return found

    async def close(self) -> None:
        """Nothing is kept."""


def vsock_address(cid: int, port: int, *, darwin: bool = os.uname().sysname == "Darwin") -> bytes:
    """A `struct sockaddr_vm`: the port comes before the number of the guest, in the host's byte order."""
    if darwin:
        return struct.pack("=BBHII", 12, AF_VSOCK, 0, port, cid)
    return struct.pack("=HHII4x", AF_VSOCK, 0, port, cid)


def connect_by_libc(found: socket.socket, address: bytes) -> None:
    """Connect a blocking socket of a family that this Python has no addresses for; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.connect(found.fileno(), address, len(address)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Hybrid:
    """A unix socket that leads to a guest's vsock: `CONNECT port`, answered by `OK number`.

    Source: Firecracker, docs/vsock.md, "Host-Initiated Connections".
    """

    def __init__(self, path: Path, port: int) -> None:
        self.name = f"hybrid:{path}:{port}"
        self._path, self._port = path, port

    async def connect(self) -> SocketStream:
        stream = SocketStream(*await asyncio.open_unix_connection(self._path, limit=CHUNK))
        try:
            await stream.write(b"CONNECT %d\n" % self._port)
            answer = await stream.read_line(MAX_OK)
            if not answer:
                raise UnreachableError(f"nothing in the guest listens on port {self._port}")
            word, _, number = answer.strip().partition(b" ")
            if word != b"OK" or not number.isdigit():
                raise UnreachableError(f"it answered {answer.decode('latin-1')!a}, which is no OK of a vsock")
        except BaseException:
            await stream.close()
            raise
        return stream

    async def close(self) -> None:
        """Nothing is kept."""


class Own:
    """The vsock of the machine's own driver, wherever that is while the machine runs."""

    def __init__(self, place: OwnVsock, port: int, *, reverse: bool) -> None:
        self.name = f"{'reverse' if reverse else 'vsock'} of its own, port {port}"
        self._place = place
        self._port = port
        self._reverse = reverse
        self._at: Path | int | None = None
        self._way: Transport | None = None

    async def connect(self) -> Stream:
        at = await asyncio.to_thread(self._place)
        if at is None:
            raise UnreachableError(
                "its virtual machine isn't running, or was started before it was given a vsock"
            )
        if self._way is None or at != self._at:
            await self.close()
            self._at, self._way = at, self._to(at)
        return await self._way.connect()

    async def close(self) -> None:
        if self._way is not None:
            await self._way.close()

    def _to(self, at: Path | int) -> Transport:
        if isinstance(at, Path):
            return Reverse(Path(f"{at}_{self._port}")) if self._reverse else Hybrid(at, self._port)
        if self._reverse:
            raise UnreachableError(
                "its vsock is the kernel's, where no agent is waited for; use the transport vsock"
            )
        return Vsock(at, self._port)


class Program:
    """The standard input and output of a program, as of `ssh HOST reflexarc-agent --stdio`."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.name = f"stdio:{command[0]}"
        self._command = command

    async def connect(self) -> ProgramStream:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=CHUNK, start_new_session=True
        )
        return ProgramStream(process)

    async def close(self) -> None:
        """Nothing is kept."""


class ProgramStream:
    """The pipes of a running program, which ends with its stream."""

    shared = False

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._input, self._output = process.stdin, process.stdout
        self._heard = False
        self._words = b""
        self._listening = asyncio.create_task(self._listen(process.stderr))

    async def read(self) -> bytes:
        data = await self._output.read(CHUNK)
        if not data and not self._heard:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._listening), EXIT_TIMEOUT)
            words = self._words.decode("utf-8", "replace").strip().splitlines()
            raise UnreachableError(
                f"the program ended without a word of an agent: {words[-1] if words else ''}"
            )
        self._heard = True
        return data

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()

    async def close(self) -> None:
        self._input.close()
        self._listening.cancel()
        # The agent ends when its input does; ssh, too, unless it waits for something.
        try:
            async with asyncio.timeout(EXIT_TIMEOUT):
                # A pipe that nobody reads any more would hold it up.
                while await self._output.read(CHUNK):
                    pass
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        """Keep the last that the program says beside the stream."""
        while data := await errors.read(MAX_WORDS):
            self._words = (self._words + data)[-MAX_WORDS:]


class Reverse:
    """A unix socket of this host that agents call: each keeps one connection waiting."""

    def __init__(self, path: Path) -> None:
        self.name = f"reverse:{path}"
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._server: asyncio.Server | None = None
        self._waiting: deque[SocketStream] = deque(maxlen=SPARE)
        self._news = asyncio.Event()

    async def connect(self) -> SocketStream:
        if self._server is None:
            await self._listen()
        while True:
            while self._waiting:
                stream = self._waiting.popleft()
                if not stream.ended:
                    return stream
                await stream.close()
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for stream in self._waiting:
                await stream.close()
            with suppress(OSError):
                self._path.unlink()
        self._lock.release()

    async def _listen(self) -> None:
        if not self._lock.take():
            raise UnreachableError(
                f"another program of this host waits for agents on {self._path}; end it first"
            )
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._called, self._path, limit=CHUNK)
        finally:
            os.umask(mask)

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._waiting) == SPARE:
            await self._waiting.popleft().close()
        self._waiting.append(SocketStream(reader, writer))
        self._news.set()


def _tls(config: AgentConfig, machine: str) -> ssl.SSLContext | None:
    """TLS that believes the named certificate only or, without one, the authorities of this host."""
    if not config.tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if config.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(config.ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"machine {machine!r}, agent.ca: {config.ca} holds no certificate in PEM: {error}"
        ) from error
    return context
