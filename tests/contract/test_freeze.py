from __future__ import annotations

import asyncio
from functools import partial

import pytest
from tests.contract.rigs import Rig, is_menu, shown, stroke

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import PowerState


def test_a_frozen_machine_takes_no_input_and_stands_still_until_it_is_thawed(menu: Rig) -> None:
    async def run() -> tuple[list[bool], PowerState, set[int]]:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            states = [await machine.freeze.frozen()]
            await machine.freeze.freeze()
            await machine.freeze.freeze()
            states.append(await machine.freeze.frozen())
            with pytest.raises(OperationRejectedError, match="thaw it") as caught:
                await stroke(machine.keyboard, "g")
            assert caught.value.code == "not running"
            widths = {(await machine.screen.screenshot()).width for _ in range(20)}
            power = await machine.power.state()
            await machine.freeze.thaw()
            await machine.freeze.thaw()
            states.append(await machine.freeze.frozen())
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            return states, power, widths

    assert asyncio.run(run()) == ([False, True, False], PowerState.ON, {720})


def test_a_machine_that_is_off_cannot_be_frozen(menu: Rig) -> None:
    async def run() -> None:
        async with menu() as machine:
            with pytest.raises(OperationRejectedError, match="it is off") as caught:
                await machine.freeze.freeze()
            assert (caught.value.code, await machine.freeze.frozen()) == ("off", False)

    asyncio.run(run())


@pytest.mark.parametrize("act", ["reset", "cycle"])
def test_a_frozen_machine_that_is_started_anew_runs(menu: Rig, act: str) -> None:
    async def run() -> tuple[bool, PowerState]:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            await machine.freeze.freeze()
            await getattr(machine.power, act)()
            await shown(machine.screen, partial(is_menu, width=720))
            return await machine.freeze.frozen(), await machine.power.state()

    assert asyncio.run(run()) == (False, PowerState.ON)
