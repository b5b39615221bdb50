from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest
from tests.contract.rigs import Rig, bar, is_menu, shown, stroke

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import PowerState


def test_a_machine_goes_back_to_each_saved_state_and_works_on(menu: Rig) -> None:
    async def run() -> list[int | None]:
        async with menu() as machine:
            await machine.power.on()
            first = await shown(machine.screen, partial(is_menu, width=720))
            await machine.snapshot.save("first")
            await stroke(machine.keyboard, "down")
            second = await shown(machine.screen, lambda frame: bar(frame) not in (None, bar(first)))
            await machine.snapshot.save("second")
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            await machine.snapshot.restore("first")
            back = await shown(machine.screen, lambda frame: is_menu(frame, 720) and bar(frame) == bar(first))
            await stroke(machine.keyboard, "down")
            await shown(machine.screen, lambda frame: bar(frame) not in (None, bar(first)))
            await machine.snapshot.restore("second")
            again = await shown(machine.screen, lambda frame: bar(frame) == bar(second))
            return [bar(back), bar(again)]

    assert asyncio.run(run()) == [64, 80]


def test_states_are_listed_replaced_and_deleted(menu: Rig) -> None:
    async def run() -> list[list[str]]:
        async with menu() as machine:
            snapshot, lists = machine.snapshot, []

            async def note() -> None:
                lists.append([state.name for state in await snapshot.saved()])

            await machine.power.on()
            await note()
            began = time.time()
            await snapshot.save("a")
            await snapshot.save("b")
            await note()
            await snapshot.save("a")
            await note()
            assert all(began - 1 <= state.taken <= time.time() for state in await snapshot.saved())
            await snapshot.delete("b")
            await note()
            with pytest.raises(OperationRejectedError, match="there are: a") as caught:
                await snapshot.restore("b")
            assert (caught.value.code, caught.value.operation) == ("absent", "snapshot.restore")
            with pytest.raises(OperationRejectedError, match="no saved state 'b'"):
                await snapshot.delete("b")
            return lists

    assert asyncio.run(run()) == [[], ["a", "b"], ["b", "a"], ["a"]]


def test_a_machine_that_is_off_has_no_state_to_save_but_goes_back_to_one(menu: Rig) -> None:
    async def run() -> PowerState:
        async with menu() as machine:
            with pytest.raises(OperationRejectedError, match="it is off") as caught:
                await machine.snapshot.save("a")
            assert caught.value.code == "off"
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await machine.snapshot.save("a")
            for switch_off in (machine.power.off(), stroke(machine.keyboard, "h")):
                await switch_off
                await shown(machine.screen, lambda frame: not frame.signal)
                await machine.snapshot.restore("a")
                await shown(machine.screen, partial(is_menu, width=720))
            return await machine.power.state()

    assert asyncio.run(run()) is PowerState.ON


def test_a_frozen_machine_stays_frozen(menu: Rig) -> None:
    async def run() -> bool:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await machine.freeze.freeze()
            await machine.snapshot.save("a")
            await machine.snapshot.restore("a")
            return await machine.freeze.frozen()

    assert asyncio.run(run())
