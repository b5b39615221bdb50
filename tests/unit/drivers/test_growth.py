from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reflexarc.drivers.qemu.growth import Growth


def test_it_tells_that_a_file_grew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()

    def grow() -> None:
        with open(path, "ab") as file:
            file.write(b"more")

    async def run() -> list[bool]:
        growth = Growth(path)
        told = []
        for _ in range(2):
            grow()
            told.append(await growth.wait(20))
        waiting = asyncio.create_task(growth.wait(20))
        await asyncio.sleep(0)
        grow()
        told.append(await waiting)
        told.append(await growth.wait(0.01))
        growth.close()
        return told

    assert asyncio.run(run()) == [True, True, True, False]


def test_without_inotify_it_says_to_look(tmp_path: Path) -> None:
    async def run() -> bool:
        # A file that isn't there can't be watched.
        growth = Growth(tmp_path / "absent")
        try:
            return await growth.wait(0.01)
        finally:
            growth.close()

    assert asyncio.run(run())


@pytest.mark.parametrize("cancelled", [True, False])
def test_it_can_be_closed_while_somebody_waits(tmp_path: Path, cancelled: bool) -> None:
    path = tmp_path / "log"
    path.touch()

    async def run() -> bool:
        growth = Growth(path)
        waiting = asyncio.create_task(growth.wait(0.05))
        await asyncio.sleep(0)
        growth.close()
        if cancelled:
            waiting.cancel()
        (ended,) = await asyncio.gather(waiting, return_exceptions=True)
        return isinstance(ended, asyncio.CancelledError) if cancelled else ended is False

    assert asyncio.run(run())
