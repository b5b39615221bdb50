"""One QMP connection, with the errors and the few notions of QMP that the driver needs.

Source: QEMU, docs/interop/qmp-spec and the QMP reference.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from qemu.qmp import ConnectError as QmpConnectError
from qemu.qmp import (
    EventListener,
    ExecInterruptedError,
    ExecuteError,
    Message,
    QMPClient,
    QMPError,
    Runstate,
    StateError,
)

from reflexarc.errors import (
    ConnectError,
    ConnectionLostError,
    MachineBusyError,
    OperationRejectedError,
    OperationTimeoutError,
    PeerProtocolError,
)
from reflexarc.machine.lock import FileLock

REPLY_TIMEOUT = 20.0

# The library logs what it also raises; without a handler that would go to standard error.
logging.getLogger("qemu.qmp").addHandler(logging.NullHandler())


class Peer(Protocol):
    """A running QEMU, as its monitors need to know it. `folder`: for locks and pictures, private to the user.

    monitors: QMP sockets, of which a program takes one. greeting_timeout: seconds until QEMU must have greeted.
    """

    @property
    def machine(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    @property
    def monitors(self) -> tuple[Path, ...]: ...

    @property
    def greeting_timeout(self) -> float: ...

    def lost(self, operation: str = "") -> ConnectionLostError:
        """The error for a connection that broke."""
        ...

    def unreachable(self, why: str) -> ConnectError:
        """The error for a QEMU that didn't let anybody in."""
        ...


class Monitor:
    """A QMP connection to a running QEMU, exclusive to its holder until `close()`."""

    def __init__(self, peer: Peer, client: QMPClient, lock: FileLock) -> None:
        self.peer = peer
        self.lost: ConnectionLostError | None = None
        self._client = client
        self._lock = lock
        self._patience = REPLY_TIMEOUT
        self._awaited: list[tuple[frozenset[str], Callable[[], None]]] = []
        client.events.names.add("")  # nothing is kept: events go to the tap
        client.register_listener(_Tap(self._heard))
        self._watch = asyncio.create_task(self._await_loss(), name=f"{peer.machine}: qmp")

    @classmethod
    async def connect(cls, peer: Peer) -> Monitor:
        """Take a free monitor of the machine.

        Raises MachineBusyError when programs of ours hold all of them, ConnectError when QEMU does not answer.
        """
        for number, path in enumerate(peer.monitors):
            lock = FileLock(peer.folder / f"qmp-{number}.lock")
            if lock.take():
                try:
                    return cls(peer, await _connected(peer, path), lock)
                except BaseException:
                    lock.release()
                    raise
        count = len(peer.monitors)
        programs = f"{count} programs are" if count > 1 else "another program is"
        raise MachineBusyError(f"{programs} connected to it already; end one of them", machine=peer.machine)

    async def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> object:
        """Run a QMP command and return its answer."""
        if self.lost:
            raise self.lost
        try:
            async with asyncio.timeout(self._patience):
                return await self._client.execute(command, arguments)
        except TimeoutError as error:
            raise OperationTimeoutError(
                f"QEMU did not answer {command} in time; it may hang",
                machine=self.peer.machine,
                operation=command,
            ) from error
        except ExecuteError as error:
            raise OperationRejectedError(
                f"QEMU rejected {command}: {error}",
                machine=self.peer.machine,
                operation=command,
                code=error.error_class,
                detail=str(error),
            ) from error
        except (ExecInterruptedError, StateError, OSError, EOFError) as error:
            raise await self._loss(command) from error
        except QMPError as error:
            raise PeerProtocolError(
                f"QEMU's answer to {command} can't be understood: {error}",
                machine=self.peer.machine,
                operation=command,
                raw=str(error).encode(),
            ) from error

    async def pass_descriptor(self, name: str, descriptor: int) -> None:
        """Hand QEMU a copy of a file descriptor under a name that later commands use."""
        if self.lost:
            raise self.lost
        try:
            self._client.send_fd_scm(descriptor)
        except (StateError, OSError) as error:
            raise await self._loss("getfd") from error
        await self.execute("getfd", {"fdname": name})

    @contextmanager
    def watching(self, *events: str) -> Iterator[asyncio.Event]:
        """Lend a flag that goes up whenever QEMU sends one of the events, or when the connection is lost."""
        flag = asyncio.Event()
        entry = (frozenset(events), flag.set)
        self._awaited.append(entry)
        try:
            yield flag
        finally:
            self._awaited.remove(entry)

    @contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """Wait so long for every answer while the context lasts: some commands keep QEMU from all others."""
        before, self._patience = self._patience, seconds
        try:
            yield
        finally:
            self._patience = before

    async def close(self) -> None:
        """Give the monitor back; the machine runs on."""
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await _disconnect(self._client)
        self._lock.release()

    def _heard(self, event: str) -> None:
        for names, tell in self._awaited:
            if event in names:
                tell()

    async def _await_loss(self) -> None:
        while self._client.runstate is Runstate.RUNNING:
            await self._client.runstate_changed()
        await self._loss("")
        for _, tell in self._awaited:
            tell()

    async def _loss(self, operation: str) -> ConnectionLostError:
        if self.lost is None:
            error = await asyncio.to_thread(self.peer.lost, operation)
            self.lost = self.lost or error
        return self.lost


class _Tap(EventListener):
    """Passes the names of events on and keeps none."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        super().__init__()
        self._heard = heard

    def accept(self, event: Message) -> bool:
        self._heard(str(event["event"]))
        return False


async def _connected(peer: Peer, path: Path) -> QMPClient:
    client = QMPClient(peer.machine)
    try:
        async with asyncio.timeout(peer.greeting_timeout):
            await client.connect(str(path))
    except (QmpConnectError, TimeoutError) as error:
        late = f"no greeting within {peer.greeting_timeout:.0f} s"
        raise peer.unreachable(late if isinstance(error, TimeoutError) else str(error)) from error
    return client


async def _disconnect(client: QMPClient) -> None:
    if client.runstate is not Runstate.IDLE:
        # What ended the connection was reported when it was noticed.
        with suppress(QMPError, OSError, EOFError):
            await client.disconnect()
