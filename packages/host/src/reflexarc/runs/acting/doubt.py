"""Whether the device itself reports the effect of an act of which nobody knows what became of it."""

from __future__ import annotations

from reflexarc.errors import ReflexarcError
from reflexarc.runs.acting.act import Act
from reflexarc.runs.acting.device import image_of, setting_of


async def is_effective(act: Act) -> bool:
    """Tell whether the effect is there; False also where that can't be told, since it may have been there before."""
    try:
        match act.state.step.action:
            case "mount_iso":
                return await act.machine.media.inserted() == image_of(act)
            case "msd_disconnect":
                return await act.machine.media.inserted() is None
            case "set_boot_device":
                return await act.machine.boot.setting() == setting_of(act)
            case "freeze":
                return await act.machine.freeze.frozen()
            case "unfreeze":
                return not await act.machine.freeze.frozen()
            case _:
                return False
    except ReflexarcError:
        return False
