"""Pictures of the guest's two screens, for the peers that compare pictures."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.reflex.guest import CACHE, StimulusGuest
from benchmarks.reflex.rig import Stimulus, execute, vm
from PIL import Image


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

        async def keep_and_answer() -> None:
            await _picture(monitor, folder, menu)
            await press_enter(monitor)

        await stimulus.trial(0.1, keep_and_answer)
        await _picture(monitor, folder, idle)
        stimulus.close()


async def press_enter(monitor: Path) -> None:
    key = {"type": "qcode", "data": "ret"}
    events = [{"type": "key", "data": {"down": down, "key": key}} for down in (True, False)]
    await execute(monitor, "input-send-event", events=events)


async def _picture(monitor: Path, folder: Path, target: Path) -> None:
    await execute(monitor, "screendump", filename=str(folder / "shot.ppm"))
    Image.open(folder / "shot.ppm").save(target)
