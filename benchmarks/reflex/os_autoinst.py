"""os-autoinst: a test that asserts the menu and presses Enter, with the defaults of a Debian installation."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.reflex.guest import MEMORY_MIB, StimulusGuest
from benchmarks.reflex.pictures import menu_and_idle
from benchmarks.reflex.rig import PeerAbsentError, Wait, free_display, process
from PIL import Image

TESTS = Path(__file__).with_name("os_autoinst_tests")
# os-autoinst works on screens of this size and puts smaller ones at the top left.
SCREEN = (1024, 768)
# x, y, width, height: the title with the selected entry; the first lines of the log.
AREAS = {"menu": (0, 8, 720, 80), "idle": (0, 0, 640, 100)}


class OsAutoinst:
    name = "os-autoinst"

    def version(self) -> str:
        if shutil.which("isotovideo") is None:
            raise PeerAbsentError("os-autoinst is not installed; run benchmarks/reflex/install")
        query = ["dpkg-query", "-W", "-f", "${Version}", "os-autoinst"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout

    @asynccontextmanager
    async def watch(self, guest: StimulusGuest, folder: Path) -> AsyncIterator[Wait]:
        case = folder / "case"
        shutil.copytree(TESTS, case)
        (case / "needles").mkdir()
        for name, picture in zip(("menu", "idle"), await menu_and_idle(guest), strict=True):
            _needle(case / "needles", name, picture)
        (folder / "vars.json").write_text(json.dumps(_variables(case)))
        # QEMU by name: with /usr/bin/kvm it would use KVM whatever QEMU_NO_KVM says.
        async with process(["isotovideo", "-d"], folder, QEMU=str(guest.qemu(folder))):
            yield _always_waits


async def _always_waits() -> None:
    """The test waits from the start and again after each key."""


def _variables(case: Path) -> dict[str, object]:
    return {
        "BACKEND": "qemu",
        "CASEDIR": str(case),
        "PRODUCTDIR": str(case),
        "NEEDLES_DIR": str(case / "needles"),
        "DISTRI": "stimulus",
        "NUMDISKS": 0,
        "QEMURAM": MEMORY_MIB,
        "QEMUCPUS": 1,
        "QEMUVGA": "std",
        "QEMU_NO_KVM": 1,
        "VNC": free_display(),
    }


def _needle(folder: Path, name: str, picture: Path) -> None:
    screen = Image.new("RGB", SCREEN)
    screen.paste(Image.open(picture))
    screen.save(folder / f"{name}.png")
    x, y, width, height = AREAS[name]
    area = {"xpos": x, "ypos": y, "width": width, "height": height, "type": "match"}
    (folder / f"{name}.json").write_text(json.dumps({"area": [area], "tags": [name]}))
