"""What one server holds: open machines, runs that it drives, outputs that it keeps; made when they are needed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.mcp.advertising import PATIENCE, is_taken_alone, may_look, may_offer

if TYPE_CHECKING:
    from reflexarc.mcp.hub import Hub
    from reflexarc.mcp.outputs import Outputs
    from reflexarc.mcp.runs import Runs


class Served:
    """The machines and runs of one server."""

    def __init__(self, inventory: Path | None = None, *, dry_run: bool = False) -> None:
        self.inventory = inventory
        self._dry_run = dry_run
        self._told: dict[str, bool] = {}

    @cached_property
    def hub(self) -> Hub:
        from reflexarc.mcp.hub import Hub

        return Hub(self.inventory, dry_run=self._dry_run)

    @cached_property
    def runs(self) -> Runs:
        from reflexarc.mcp.runs import Runs

        return Runs(self.hub)

    @cached_property
    def outputs(self) -> Outputs:
        from reflexarc.mcp.outputs import Outputs

        return Outputs()

    async def offers_elements(self, *, by_clock: bool = False) -> bool:
        """Tell whether a machine has the tree of a desktop, or its applications, now.

        by_clock: what an agent said last counts where asking it again would keep other programs from it.
        """
        with suppress(ConfigError):
            found = filter(may_look, entries.load(self.inventory).machines.values())
            return any(await asyncio.gather(*(self._has_desktop(entry, by_clock) for entry in found)))
        return False

    async def _has_desktop(self, entry: Entry, by_clock: bool) -> bool:
        there = await self.hub.offers_elements(entry) if "hub" in self.__dict__ else None
        if there is None and may_offer(entry):
            if by_clock and is_taken_alone(entry):
                return self._told.get(entry.place, False)
            from reflexarc.inventory.answering import has_desktop

            there = await has_desktop(entry, PATIENCE)
        self._told[entry.place] = bool(there)
        return bool(there)

    async def close(self) -> None:
        """Leave the runs that are under way, let go what is held down, close every machine."""
        if "runs" in self.__dict__:
            await self.runs.close()
        if "hub" in self.__dict__:
            await self.hub.close()
        if "outputs" in self.__dict__:
            self.outputs.close()
