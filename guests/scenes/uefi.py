"""The UEFI firmware OVMF, its shell and setup, and boot menus under it.

OVMF centres its consoles on the screen and repeats them on the serial line, arrows replaced: their true text is
that of the serial line with the arrows that the firmware draws put back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from guests import media
from guests.record import Recorder
from guests.truth import mirror
from guests.vm import Machine

_ENTRY = re.compile(r"^([│ ]{0,2})>(?= \w)")
Truth = Callable[[Machine], list[str]]


def firmware(recorder: Recorder) -> None:
    folder = recorder.folder()
    with recorder.machine(*media.uefi(folder), "-nic", "none", folder=folder) as machine:
        machine.until_serial("Press ESC|UEFI Interactive Shell")
        truth = _console(100, 31)
        recorder.until(machine, truth, r"^Shell>")
        machine.until_still()
        recorder.keep(machine, "uefi_shell", "uefi_shell", truth)
        machine.type("map\n")
        machine.until_still()
        recorder.keep(machine, "uefi_shell_map", "uefi_shell", truth)
        machine.type("exit\n")
        _setup(recorder, machine)


def _setup(recorder: Recorder, machine: Machine) -> None:
    truth = _console(80, 25)
    recorder.until(machine, truth, "Continue")
    machine.until_still()
    recorder.keep(machine, "ovmf_setup", "bios_menu", truth)
    machine.keys("down", "ret")
    recorder.until(machine, truth, "Secure Boot")
    machine.until_still()
    recorder.keep(machine, "ovmf_device_manager", "bios_menu", truth)
    machine.keys("esc")
    machine.until_still()
    machine.keys("down", "ret")
    recorder.until(machine, truth, "Boot Manager Menu|UEFI ")
    machine.until_still()
    recorder.keep(machine, "ovmf_boot_manager", "boot_device_menu", truth)


def splash(recorder: Recorder) -> None:
    folder = recorder.folder()
    options = (*media.uefi(folder), "-nic", "none", "-boot", "menu=on,splash-time=20000")
    with recorder.machine(*options, folder=folder) as machine:
        machine.until_colours(3)
        recorder.keep(machine, "ovmf_splash", "post_screen")
        machine.until_still(seconds=0.5)
        recorder.keep(machine, "ovmf_splash_waiting", "post_screen")


def network(recorder: Recorder) -> None:
    folder = recorder.folder()
    card = ("-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,romfile=")
    with recorder.machine(*media.uefi(folder), *card, folder=folder) as machine:
        machine.until_serial("Start PXE over IPv4")
        recorder.keep(machine, "uefi_pxe", "pxe_boot", _console(100, 31))


def systemd_boot(recorder: Recorder) -> None:
    folder = recorder.folder()
    disk = media.systemd_boot_disk(folder)
    options = (*media.uefi(folder), "-nic", "none", "-drive", f"format=raw,file={disk}")
    with recorder.machine(*options, folder=folder) as machine:
        machine.until_serial("Reboot Into Firmware")
        machine.until_still()
        recorder.keep(machine, "systemd_boot", "grub_menu", _console(160, 42))


def grub(recorder: Recorder) -> None:
    folder = recorder.folder()
    cdrom = media.grub_cdrom(recorder.folder(), "set timeout=-1\nset gfxmode=auto\nloadfont unicode\n"
                             "terminal_output gfxterm\n")  # fmt: skip
    options = (*media.uefi(folder), "-nic", "none", "-cdrom", str(cdrom))
    with recorder.machine(*options, folder=folder) as machine:
        machine.until_serial("BdsDxe: starting")
        machine.until_still(seconds=5)
        recorder.keep(machine, "uefi_grub", "grub_menu")


def _console(columns: int, rows: int) -> Truth:
    return partial(_lines, columns=columns, rows=rows)


def _lines(machine: Machine, columns: int, rows: int) -> list[str]:
    lines = mirror(machine, columns, rows, encoding="cp437")
    return [
        _ENTRY.sub(r"\1►", line.replace("^v=", "↑↓=").replace("<^> and <v>", "<↑> and <↓>")) for line in lines
    ]


SCENES = (firmware, splash, network, systemd_boot, grub)
