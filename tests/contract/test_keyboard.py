from __future__ import annotations

import asyncio
from functools import partial

from tests.contract.rigs import Rig, bar, is_menu, said, shown, stroke


def test_a_batch_arrives_whole_and_in_order(system: Rig) -> None:
    async def run() -> None:
        async with system() as machine:
            await machine.power.on()
            await said(machine.console, "READY")
            await stroke(machine.keyboard, "a", "b", "c", "enter")
            await said(machine.console, "keyboard [abc]")

    asyncio.run(run())


def test_each_stroke_moves_the_menu_by_a_row(menu: Rig) -> None:
    async def run() -> list[int | None]:
        async with menu() as machine:
            await machine.power.on()
            rows = [bar(await shown(machine.screen, partial(is_menu, width=720)))]
            for _ in range(2):
                await stroke(machine.keyboard, "down")
                moved = await shown(machine.screen, lambda frame: bar(frame) not in (None, rows[-1]))
                rows.append(bar(moved))
            return rows

    assert asyncio.run(run()) == [64, 80, 96]
