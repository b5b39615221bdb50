"""Scenes: what is started, typed and recorded, by name."""

from __future__ import annotations

from collections.abc import Callable

from guests.record import Recorder
from guests.scenes import bios, uefi

SCENES: dict[str, Callable[[Recorder], None]] = {
    function.__name__: function
    for module in (bios, uefi)
    for function in module.SCENES
}
