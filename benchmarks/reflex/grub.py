"""The stimulus on a framebuffer: GRUB's graphical terminal at 1024x768, started by a BIOS or by UEFI.

What GRUB prints there looks like its menu; its real one can't say when it is drawn.
"""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reflex.guest import CACHE
from tests.guests import build_cdrom

# The third serial port: UEFI takes the first two for terminals of its own.
_PORT = 0x3E8
_LINE_STATUS = _PORT + 5
_LINE = "─" * 76
_ENTRIES = ("*Debian GNU/Linux", " Advanced options for Debian GNU/Linux", *[""] * 10)


def _echo(line: str) -> str:
    return f'echo "{line}"\n'


def _say(word: str) -> str:
    return f"outb {_PORT:#x} {ord(word):#x}\n"


def _menu() -> str:
    title = "                           GNU GRUB  version 2.06-13+deb12u2"
    top, bottom = f" ┌{_LINE}┐", f" └{_LINE}┘"
    selected, *others = _ENTRIES
    return "".join(
        [
            "clear\n",
            *map(_echo, ("", title, "", top)),
            'echo -n " │"\nset color_normal=black/light-gray\n',
            f'echo -n "{selected:<76}"\nset color_normal=light-gray/black\necho "│"\n',
            *(_echo(f" │{entry:<76}│") for entry in others),
            *map(_echo, (bottom, "", "      Use the ↑ and ↓ keys to select which entry is highlighted.")),
            _echo("      Press enter to boot the selected OS, 'e' to edit the commands"),
            "echo -n \"      before booting or 'c' for a command-line.\"\n",
        ]
    )


def _idle() -> str:
    return "clear\n" + "".join(
        _echo(f"virtual_device {number:02}: link state is stable, nothing to do") for number in range(22)
    )


# On a byte from the port the menu; then it waits for a line from the keyboard, an empty one where all is well.
CONFIG = f"""
insmod all_video
insmod iorw
loadfont unicode
set gfxmode=1024x768
terminal_output gfxterm
set color_normal=light-gray/black
{_idle()}
{_say("R")}
while true; do
    set status=60
    while [ "$status" != 61 ]; do inb -v status {_LINE_STATUS:#x}; done
    inb -v trigger {_PORT:#x}
    {_menu()}
    {_say("M")}
    read answer
    if [ -z "$answer" ]; then {_say("K")} else {_say("W")} fi
    {_idle()}
    {_say("D")}
done
"""


@dataclass(frozen=True)
class GrubGuest:
    """An image with GRUB, and the firmware that starts it: bios or uefi."""

    image: Path
    firmware: str
    delays: bool = False

    @property
    def settings(self) -> str:
        return f'firmware = "{self.firmware}"\ncdrom = "{self.image}"\n'

    def qemu(self, folder: Path) -> Path:
        """Write a program that is a QEMU with one more serial port, at `folder`/reaction."""
        program = folder / "qemu-with-stimulus"
        added = [
            "-chardev", f"socket,id=reaction,path={folder / 'reaction'},server=on,wait=off",
            "-device", f"isa-serial,chardev=reaction,iobase={_PORT:#x},irq=5",
        ]  # fmt: skip
        program.write_text(f'#!/bin/sh\nexec qemu-system-x86_64 "$@" {shlex.join(added)}\n')
        program.chmod(0o755)
        return program


def grub_guest(firmware: str) -> GrubGuest:
    """Return the guest, built by grub-mkrescue unless the cache has it."""
    image = CACHE / f"grub-{hashlib.sha256(CONFIG.encode()).hexdigest()[:16]}.iso"
    if not image.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as workshop:
            build_cdrom(Path(workshop) / "cdrom", CONFIG).rename(image)
    return GrubGuest(image, firmware)
