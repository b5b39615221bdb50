"""The machines that a server has open: each from its first use until nobody has used it for a while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reflexarc.errors import ConnectError, MachineError, ReflexarcError, SafetyError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import launched, open_session, running_vm, start_vm
from reflexarc.machine.guard import Guard
from reflexarc.machine.policy import covers
from reflexarc.mcp import auditing, veil
from reflexarc.mcp.advertising import PATIENCE
from reflexarc.mcp.callers import caller
from reflexarc.mcp.picture import Scale
from reflexarc.runs.session import Session

IDLE = 600.0
"""Seconds after which a machine that nobody uses is closed: as long as a ref to an element holds."""
HELD = 10.0
"""Seconds after which a button that a client left down is let go, whatever else is done meanwhile."""
MAX_CLIENTS = 256


@dataclass
class Opened:
    """One open machine. pointer: where it was moved last; using: how many calls are in it, until `used_at` some was."""

    session: Session
    pointer: tuple[int, int] | None = None
    using: int = 0
    used_at: float = field(default_factory=time.monotonic)
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    letting_go: asyncio.Task[None] | None = None
    _scales: OrderedDict[str, Scale] = field(default_factory=OrderedDict)

    @property
    def scale(self) -> Scale | None:
        """The scale of the last image that the client of this call was given, None where it was given none."""
        return self._scales.get(caller())

    @scale.setter
    def scale(self, scale: Scale) -> None:
        self._scales[caller()] = scale
        self._scales.move_to_end(caller())
        while len(self._scales) > MAX_CLIENTS:
            self._scales.popitem(last=False)

    @property
    def down_since(self) -> float | None:
        """When the first of the buttons that are down was pressed, None where none is."""
        pointer = self.session.machine.guarded.pointer
        return None if pointer is None else pointer.down_since

    def idle_at(self, idle: float) -> float:
        """From when on it is idle, which it isn't while it is used or a button is down."""
        busy = self.using or self.down_since is not None
        return (time.monotonic() if busy else self.used_at) + idle

    def keep_time(self, held: float) -> None:
        """Have let go what a call left down that has just ended: a button in its time, whatever comes meanwhile."""
        keyboard = self.session.machine.guarded.keyboard
        is_down = self.down_since is not None or (keyboard is not None and keyboard.is_down)
        if is_down and (self.letting_go is None or self.letting_go.done()):
            self.letting_go = asyncio.ensure_future(self._keep_time(held))

    async def let_go(self, held: float, *, keys: bool) -> None:
        """Let go the buttons that are down for so long, and keys, which only a call that was broken off leaves down."""
        machine, since = self.session.machine.guarded, self.down_since
        if machine.pointer is not None and since is not None and time.monotonic() - since >= held:
            await machine.pointer.release_all()
        if keys and machine.keyboard is not None:
            await machine.keyboard.release_all()

    async def _keep_time(self, held: float) -> None:
        # What can't be let go stays down, and is tried again after the next call.
        with suppress(ReflexarcError):
            # A call that has begun by now let go the keys first: those that are down are its own.
            await self.let_go(held, keys=not self.acting.locked())
            while (since := self.down_since) is not None:
                await asyncio.sleep(since + held - time.monotonic())
                await self.let_go(held, keys=not self.acting.locked())


class Hub:
    """Opens machines of an inventory for an agent, and closes those that nobody uses."""

    def __init__(
        self, inventory: Path | None = None, *, dry_run: bool = False, held: float = HELD, idle: float = IDLE
    ) -> None:
        self._inventory = inventory
        self._idle = idle
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
        finally:
            opened.using -= 1
            opened.used_at = time.monotonic()

    @asynccontextmanager
    async def acting(self, name: str) -> AsyncIterator[Opened]:
        """The open machine, to act on: one call after the other; its lock is given back afterwards."""
        async with self.looking(name) as opened, opened.acting:
            try:
                with suppress(ReflexarcError):
                    await opened.let_go(self._held, keys=True)
                yield opened
            finally:
                opened.session.lock.release()
                opened.keep_time(self._held)

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
        if keeper is None or keeper.is_stale(entry):
            # At once, so that calls that come meanwhile find the new one.
            keeper = self._keepers[entry.place] = _Keeper(
                entry, dry_run=self.dry_run, idle=self._idle, before=keeper
            )
        return await asyncio.shield(keeper.opened)


class _Keeper:
    """Keeps one session open in a task of its own, for what is opened must be closed by the same one.

    before: the one that it takes the place of, which is closed first.
    """

    def __init__(self, entry: Entry, *, dry_run: bool, idle: float, before: _Keeper | None) -> None:
        self.opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._entry = entry
        self._vm = _vm(entry)
        self._done = asyncio.Event()
        self._idle = idle
        self._task = asyncio.ensure_future(self._keep(dry_run, before))
        self._task.add_done_callback(self._ended)

    @property
    def now(self) -> Opened | None:
        """The session where it is open by now."""
        done = self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None
        return self.opened.result() if done and not self._task.done() else None

    def is_stale(self, entry: Entry) -> bool:
        """Tell whether it is closed, has lost its machine, or is open to what is another one by now."""
        if self._task.done() or self._done.is_set() or self._entry != entry or self._vm != _vm(entry):
            return True
        opened = self.now
        return opened is not None and opened.session.watcher.has_lost

    async def _keep(self, dry_run: bool, before: _Keeper | None) -> None:
        if before is not None:
            await before.close()
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
                left = opened.idle_at(self._idle) - time.monotonic()
                if left <= 0:
                    self._done.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._done.wait(), left)
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
