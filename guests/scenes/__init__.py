"""Scenes: what is started, typed and recorded, by name."""

from __future__ import annotations

from collections.abc import Callable

from guests.record import Recorder
from guests.scenes import bios, installer, linux, uefi

SCENES: dict[str, Callable[[Recorder], None]] = {
    function.__name__: function for module in (bios, uefi, linux, installer) for function in module.SCENES
}
