from __future__ import annotations

import asyncio
from functools import partial

from tests.contract.rigs import PATIENCE, Machine, Rig, is_menu, shown

from reflexarc.machine.capabilities import BootDevice, BootSetting

CDROM = BootSetting(BootDevice.CDROM)
ONCE = BootSetting(BootDevice.CDROM, once=True)
NOTHING = BootSetting()


async def used_up(machine: Machine, then: BootSetting) -> None:
    async with asyncio.timeout(PATIENCE):
        while await machine.boot.setting() != then:
            pass


def test_a_device_set_once_counts_for_one_start(menu: Rig) -> None:
    async def run() -> list[BootSetting]:
        async with menu() as machine:
            settings = [await machine.boot.setting()]
            await machine.boot.set(BootDevice.CDROM, once=True)
            settings.append(await machine.boot.setting())
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await used_up(machine, NOTHING)
            await machine.boot.set(BootDevice.CDROM, once=True)
            settings.append(await machine.boot.setting())
            await machine.power.reset()
            await used_up(machine, NOTHING)
            return settings

    assert asyncio.run(run()) == [NOTHING, ONCE, ONCE]


def test_a_lasting_device_stays_and_comes_back_after_one_set_once(menu: Rig) -> None:
    async def run() -> list[BootSetting]:
        async with menu() as machine:
            await machine.boot.set(BootDevice.CDROM, once=False)
            settings = [await machine.boot.setting()]
            await machine.power.on()
            await machine.power.reset()
            settings.append(await machine.boot.setting())
            await machine.boot.set(BootDevice.CDROM, once=True)
            settings.append(await machine.boot.setting())
            await machine.power.cycle()
            await used_up(machine, CDROM)
            await machine.boot.set(BootDevice.NONE, once=False)
            settings.append(await machine.boot.setting())
            return settings

    assert asyncio.run(run()) == [CDROM, CDROM, ONCE, NOTHING]
