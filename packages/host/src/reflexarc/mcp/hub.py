"""The machines that a server has open: each from its first use until nobody has used it for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reflexarc.errors import (
    ConnectError,
    ConnectionLostError,
    MachineError,
    ReflexarcError,
    SafetyError,
)
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import launched, open_session, running_vm, start_vm
from reflexarc.machine.guard import Guard
from reflexarc.machine.policy import covers
from reflexarc.mcp import auditing, veil
from reflexarc.mcp.advertising import PATIENCE
from reflexarc.mcp.picture import Scale
from reflexarc.runs.session import Session

IDLE = 60.0
HELD = 10.0
"""Seconds after which keys and buttons that a client left down are let go, where it says nothing more."""


@dataclass
class Opened:
    """One open machine. scale: of the last picture that was given out; pointer: where it was moved last."""

    session: Session
    scale: Scale | None = None
    pointer: tuple[int, int] | None = None
    using: int = 0
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    letting_go: asyncio.Task[None] | None = None


class Hub:
    """Opens machines of an inventory for an agent, and closes those that nobody uses."""

    def __init__(self, inventory: Path | None = None, *, dry_run: bool = False, held: float = HELD) -> None:
        self._inventory = inventory
        self._keepers: dict[str, _Keeper] = {}
        self._held = held
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

    def may_launch(self, entry: Entry) -> bool:
        """Tell whether agents may start the machine's virtual machine where it has none."""
        return not self.dry_run and covers(entry.policy.agents, "power.on")

    async def offers_elements(self, entry: Entry) -> bool | None:
        """Tell whether the machine's desktop answers now, None where the machine is not open."""
        keeper = self._keepers.get(entry.place)
        if keeper is None or (opened := keeper.now) is None:
            return None
        with suppress(MachineError, SafetyError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await opened.session.accessibility.apps()
                return True
        return False

    @asynccontextmanager
    async def looking(self, name: str) -> AsyncIterator[Opened]:
        """The open machine, to look at; raises ConnectError where it can't be reached."""
        entry = self.entry(name)
        opened = await self._opened(entry)
        veil.draw(opened.session)
        opened.using += 1
        try:
            yield opened
        except (ConnectError, ConnectionLostError):
            await self._close(entry)
            raise
        finally:
            opened.using -= 1

    @asynccontextmanager
    async def acting(self, name: str) -> AsyncIterator[Opened]:
        """The open machine, to act on: one call after the other; its lock is given back afterwards."""
        async with self.looking(name) as opened, opened.acting:
            if opened.letting_go is not None:
                opened.letting_go.cancel()
            try:
                yield opened
            finally:
                opened.session.lock.release()
                opened.letting_go = asyncio.ensure_future(_let_go(opened, self._held))

    def launch(self, name: str) -> None:
        """Launch the virtual machine of that name where it has none; it stays until somebody stops it.

        Raises SafetyError where agents may not switch it on.
        """
        entry = self.entry(name)
        if launched(entry) and running_vm(entry) is None:
            Guard(
                name, entry.policy, agent=True, via="mcp", dry_run=self.dry_run, audit=auditing.write
            ).check("power.on")
            start_vm(entry)

    async def close(self) -> None:
        """Let go what is held down, and close every machine."""
        keepers, self._keepers = self._keepers, {}
        for keeper in keepers.values():
            await keeper.close()

    async def _opened(self, entry: Entry) -> Opened:
        keeper = self._keepers.get(entry.place)
        if keeper is not None and keeper.is_stale(entry):
            await self._close(entry)
            keeper = None
        if keeper is None:
            keeper = self._keepers[entry.place] = _Keeper(entry, dry_run=self.dry_run)
        return await asyncio.shield(keeper.opened)

    async def _close(self, entry: Entry) -> None:
        keeper = self._keepers.pop(entry.place, None)
        if keeper is not None:
            await keeper.close()


async def _let_go(opened: Opened, after: float) -> None:
    """Let go what a client left down and came not back for."""
    await asyncio.sleep(after)
    async with opened.acting:
        with suppress(MachineError):
            await opened.session.machine.release_keys()


class _Keeper:
    """Keeps one session open in a task of its own, for what is opened must be closed by the same one."""

    def __init__(self, entry: Entry, *, dry_run: bool) -> None:
        self.opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._entry = entry
        self._vm = _vm(entry)
        self._done = asyncio.Event()
        self._task = asyncio.ensure_future(self._keep(dry_run))
        self._task.add_done_callback(self._ended)

    @property
    def now(self) -> Opened | None:
        """The session where it is open by now."""
        done = self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None
        return self.opened.result() if done and not self._task.done() else None

    def is_stale(self, entry: Entry) -> bool:
        """Tell whether it is closed, or open to what is another machine by now."""
        return self._task.done() or self._done.is_set() or self._entry != entry or self._vm != _vm(entry)

    async def _keep(self, dry_run: bool) -> None:
        async with open_session(
            self._entry,
            agent=True,
            via="mcp",
            dry_run=dry_run,
            holder="an agent (MCP)",
            launch=False,
            audit=auditing.write,
        ) as session:
            opened = Opened(session)
            self.opened.set_result(opened)
            while not self._done.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._done.wait(), IDLE)
                if opened.using == 0:
                    self._done.set()
            if opened.letting_go is not None:
                opened.letting_go.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell those who wait for the session why there is none."""
        error = None if task.cancelled() else task.exception()
        if not self.opened.done():
            self.opened.set_exception(error or ConnectError("it was closed", machine=self._entry.name))
            self.opened.exception()

    async def close(self) -> None:
        """Close the session, in use or not; what can't be closed well is left."""
        self._done.set()
        with suppress(ReflexarcError, asyncio.CancelledError):
            await asyncio.shield(self._task)


def _vm(entry: Entry) -> object:
    """What tells one start of its virtual machine from another."""
    return running_vm(entry) if launched(entry) else None
