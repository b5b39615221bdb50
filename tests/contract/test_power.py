from __future__ import annotations

import asyncio
from functools import partial

import pytest
from tests.contract.rigs import Rig, is_menu, said, shown, stroke

from reflexarc.errors import OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import PowerState


def test_each_act_leads_to_its_state(menu: Rig) -> None:
    async def run() -> list[PowerState]:
        async with menu() as machine:
            power, states = machine.power, [await machine.power.state()]
            for act in (power.on, power.on, power.reset, power.cycle, power.off, power.off, power.cycle):
                await act()
                states.append(await power.state())
            return states

    on, off = PowerState.ON, PowerState.OFF
    assert asyncio.run(run()) == [off, on, on, on, on, off, off, on]


def test_a_machine_that_is_off_cannot_be_reset(menu: Rig) -> None:
    async def run() -> PowerState:
        async with menu() as machine:
            with pytest.raises(OperationRejectedError, match="switch it on") as caught:
                await machine.power.reset()
            assert caught.value.code == "off"
            return await machine.power.state()

    assert asyncio.run(run()) is PowerState.OFF


def test_a_reset_starts_the_machine_anew(menu: Rig) -> None:
    async def run() -> None:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            await machine.power.reset()
            await shown(machine.screen, partial(is_menu, width=720))

    asyncio.run(run())


def test_a_shutdown_that_nothing_obeys_times_out(menu: Rig) -> None:
    async def run() -> PowerState:
        async with menu() as machine:
            await machine.power.on()
            with pytest.raises(OperationTimeoutError) as caught:
                await machine.power.shutdown(0.2)
            assert caught.value.operation == "power.shutdown"
            return await machine.power.state()

    assert asyncio.run(run()) is PowerState.ON


def test_the_power_button_shuts_the_system_down_and_it_starts_again(system: Rig) -> None:
    async def run() -> list[PowerState]:
        async with system() as machine:
            await machine.power.on()
            await said(machine.console, "READY")
            await machine.power.shutdown(30)
            states = [await machine.power.state()]
            await machine.power.shutdown(30)
            await machine.power.on()
            await said(machine.console, "READY")  # the tests share the system, and each expects it up
            return [*states, await machine.power.state()]

    assert asyncio.run(run()) == [PowerState.OFF, PowerState.ON]


def test_a_machine_that_switches_itself_off_is_off(menu: Rig) -> None:
    async def run() -> PowerState:
        async with menu() as machine:
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await stroke(machine.keyboard, "h")
            await shown(machine.screen, lambda frame: not frame.signal)
            return await machine.power.state()

    assert asyncio.run(run()) is PowerState.OFF
