"""The machines that a server has open: each from its first use until nobody has used it for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reflexarc.errors import ConnectError, ConnectionLostError, MachineError, ReflexarcError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import launched, open_session, running_vm, start_vm
from reflexarc.mcp.picture import Scale
from reflexarc.runs.session import Session

IDLE = 60.0
# Keys and buttons that a client left down are let go when it says nothing more for so long.
HELD = 10.0


@dataclass
class Opened:
    """One open machine. scale: of the last picture that was given out; pointer: where it was moved last."""

    session: Session
    scale: Scale | None = None
    pointer: tuple[int, int] | None = None
    using: int = 0
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class Hub:
    """Opens machines of an inventory for an agent, and closes those that nobody uses."""

    def __init__(self, inventory: Path | None = None, *, dry_run: bool = False) -> None:
        self._inventory = inventory
        self._keepers: dict[str, _Keeper] = {}
        self.dry_run = dry_run

    def entries(self) -> list[Entry]:
        """The machines there are, read anew: the operator may have changed what is allowed."""
        return list(entries.load(self._inventory).machines.values())

    def inventory(self) -> Path:
        """The file of the inventory; raises ConfigError where there is none."""
        return entries.load(self._inventory).path

    def entry(self, name: str) -> Entry:
        """The machine of that name; raises ConfigError."""
        return entries.load(self._inventory).entry(name)

    @asynccontextmanager
    async def looking(self, name: str) -> AsyncIterator[Opened]:
        """The open machine, to look at; raises ConnectError where it can't be reached."""
        opened = await self._opened(self.entry(name))
        opened.using += 1
        try:
            yield opened
        except (ConnectError, ConnectionLostError):
            await self._close(name)
            raise
        finally:
            opened.using -= 1

    @asynccontextmanager
    async def acting(self, name: str) -> AsyncIterator[Opened]:
        """The open machine, to act on: one call after the other; its lock is given back afterwards."""
        async with self.looking(name) as opened, opened.acting:
            for timer in opened.timers:
                timer.cancel()
            opened.timers.clear()
            try:
                yield opened
            finally:
                opened.session.lock.release()
                loop = asyncio.get_running_loop()
                opened.timers.append(loop.call_later(HELD, self._let_go, opened))

    def launch(self, name: str) -> None:
        """Launch the virtual machine of that name where it has none; it stays until somebody stops it."""
        entry = self.entry(name)
        if launched(entry) and running_vm(entry) is None:
            start_vm(entry)

    async def close(self) -> None:
        """Let go what is held down, and close every machine."""
        for name in list(self._keepers):
            await self._close(name)

    async def _opened(self, entry: Entry) -> Opened:
        keeper = self._keepers.get(entry.place)
        if keeper is None or keeper.task.done() or keeper.entry != entry:
            if keeper is not None:
                await keeper.close()
            keeper = self._keepers[entry.place] = _Keeper(entry, dry_run=self.dry_run)
        return await asyncio.shield(keeper.opened)

    async def _close(self, name: str) -> None:
        for place, keeper in list(self._keepers.items()):
            if name in (place, keeper.entry.name):
                del self._keepers[place]
                await keeper.close()

    def _let_go(self, opened: Opened) -> None:
        task = asyncio.ensure_future(_released(opened))
        task.add_done_callback(lambda done: done.exception())


async def _released(opened: Opened) -> None:
    async with opened.acting:
        with suppress(MachineError):
            await opened.session.machine.release_keys()
        opened.session.lock.release()


class _Keeper:
    """Keeps one session open in a task of its own, for what is opened must be closed by the same one."""

    def __init__(self, entry: Entry, *, dry_run: bool) -> None:
        self.entry = entry
        self.opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._done = asyncio.Event()
        self.task = asyncio.ensure_future(self._keep(dry_run))

    async def _keep(self, dry_run: bool) -> None:
        try:
            async with open_session(
                self.entry, agent=True, dry_run=dry_run, holder="an agent (MCP)", launch=False
            ) as session:
                opened = Opened(session)
                self.opened.set_result(opened)
                while not self._done.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._done.wait(), IDLE)
                        break
                    if opened.using == 0:
                        break
                    # Somebody looks at it: another while.
        except ReflexarcError as error:
            if not self.opened.done():
                self.opened.set_exception(error)
                self.opened.exception()
        finally:
            if not self.opened.done():
                self.opened.cancel()

    async def close(self) -> None:
        self._done.set()
        with suppress(asyncio.CancelledError):
            await self.task
