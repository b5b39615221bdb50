"""kvm-pilot with its defaults: OCR rules first, else a model (here one without latency), 3 s between polls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.reflex.guest import CACHE, StimulusGuest
from benchmarks.reflex.rig import Told, Wait, installed, listening, process, vm

ENVIRONMENT = CACHE / "kvm-pilot"


class KvmPilot:
    name = "kvm-pilot"

    def version(self) -> str:
        return installed(ENVIRONMENT, "kvm_pilot")

    @asynccontextmanager
    async def watch(self, guest: StimulusGuest, folder: Path) -> AsyncIterator[Wait]:
        watcher = Path(__file__).with_name("kvm_pilot_watcher.py")
        async with vm(guest, folder, "-display", "none") as monitor:
            (await listening(monitor))[1].close()
            # -P: the module kvm_pilot is to be theirs, not the one beside this file.
            arguments = [str(ENVIRONMENT / "bin/python"), "-P", str(watcher), str(monitor)]
            # One thread serves Tesseract better on pictures this small.
            async with process(arguments, folder, OMP_THREAD_LIMIT="1") as program:
                yield Told(program, folder)
