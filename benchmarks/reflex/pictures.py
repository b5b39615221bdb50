"""Pictures of the guest's two screens, for the peers that compare pictures."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from PIL import Image

from benchmarks.reflex.guest import CACHE, StimulusGuest
from benchmarks.reflex.rig import Stimulus, execute, vm


async def menu_and_idle(guest: StimulusGuest) -> tuple[Path, Path]:
    """PNG files of the menu and of the log; taken once for each guest, then kept beside it."""
    menu, idle = (guest.kernel.with_name(f"{name}.png") for name in ("menu", "idle"))
    if not idle.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            await _take(guest, Path(folder), menu, idle)
    return menu, idle


async def _take(guest: StimulusGuest, folder: Path, menu: Path, idle: Path) -> None:
    async with vm(guest, folder, "-display", "none") as monitor:
        stimulus = await Stimulus.connect(folder / "reaction")
        trial = asyncio.ensure_future(stimulus.trial(0.1))
        await asyncio.sleep(1.5)  # the menu shows until a key comes
        await _picture(monitor, folder, menu)
        key = {"type": "key", "data": {"key": {"type": "qcode", "data": "ret"}}}
        for down in (True, False):
            await execute(monitor, "input-send-event", events=[{**key, "data": {**key["data"], "down": down}}])  # type: ignore[dict-item]
        await trial
        await _picture(monitor, folder, idle)
        stimulus.close()


async def _picture(monitor: Path, folder: Path, target: Path) -> None:
    await execute(monitor, "screendump", filename=str(folder / "shot.ppm"))
    Image.open(folder / "shot.ppm").save(target)
