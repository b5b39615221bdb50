from __future__ import annotations

import asyncio
from functools import partial

import pytest
from tests.contract.rigs import Rig, is_menu, shown

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Button


def test_the_pointer_goes_to_any_pixel_of_the_present_screen_and_no_further(menu: Rig) -> None:
    async def run() -> None:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            for x, y in ((0, 0), (719, 399)):
                await machine.pointer.move(x, y)
            for x, y in ((720, 0), (0, 400), (-1, 0), (0, -1)):
                with pytest.raises(
                    OperationRejectedError, match=rf"\({x}, {y}\) .* 720x400 pixels"
                ) as caught:
                    await machine.pointer.move(x, y)
                assert caught.value.code == "outside"
            for button in Button:
                await machine.pointer.button(button, True)
                await machine.pointer.button(button, False)
            await machine.pointer.scroll(0, -2)

    asyncio.run(run())
