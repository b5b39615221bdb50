from __future__ import annotations

import asyncio
from pathlib import Path

from tests.contract.rigs import Rig


def test_what_is_inserted_is_in_until_something_else_is_or_it_is_ejected(menu: Rig, tmp_path: Path) -> None:
    images = [tmp_path / "first, disc.iso", tmp_path / "second.iso"]
    for image in images:
        image.write_bytes(bytes(1 << 20))

    async def run() -> list[str | None]:
        async with menu() as machine:
            media, found = machine.media, []
            await media.eject()
            found.append(await media.inserted())
            await media.eject()
            for image in images:
                await media.insert(str(image))
                found.append(await media.inserted())
            await machine.power.on()
            await media.eject()
            found.append(await media.inserted())
            return found

    assert asyncio.run(run()) == [None, *map(str, images), None]
