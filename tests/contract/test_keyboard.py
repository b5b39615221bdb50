from __future__ import annotations

import asyncio
from functools import partial

from tests.contract.rigs import Rig, bar, is_menu, said, shown, stroke

from reflexarc.machine.frame import Frame


def test_a_batch_arrives_whole_and_in_order(system: Rig) -> None:
    async def run() -> None:
        async with system() as machine:
            await machine.power.on()
            await said(machine.console, "READY")
            await stroke(machine.keyboard, "a", "b", "c", "enter")
            await said(machine.console, "keyboard [abc]")

    asyncio.run(run())


def is_elsewhere(frame: Frame, row: int | None) -> bool:
    """Tell whether the bar is in another row, drawn whole: a picture may be taken in the middle of drawing."""
    top = bar(frame)
    return top is not None and top != row and top % 16 == 0


def test_each_stroke_moves_the_menu_by_a_row(menu: Rig) -> None:
    async def run() -> list[int | None]:
        async with menu() as machine:
            await machine.power.on()
            rows = [bar(await shown(machine.screen, partial(is_menu, width=720)))]
            for _ in range(2):
                await stroke(machine.keyboard, "down")
                rows.append(bar(await shown(machine.screen, partial(is_elsewhere, row=rows[-1]))))
            return rows

    assert asyncio.run(run()) == [64, 80, 96]
