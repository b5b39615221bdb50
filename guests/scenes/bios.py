"""SeaBIOS, iPXE and the boot loaders in BIOS text modes."""

from __future__ import annotations

from functools import partial

from guests import media
from guests.record import Recorder
from guests.truth import mirror, vga

_MENU = ("-boot", "menu=on,splash-time=60000")
_CARD = ("-netdev", "user,id=net,restrict=on", "-device", "e1000,netdev=net")
_MIRRORED = """
set timeout=-1
set gfxmode={mode}
insmod all_video
loadfont unicode
serial --unit=0 --speed=115200
terminfo -g {columns}x{rows} -u serial vt100
terminal_input console
terminal_output gfxterm serial
"""


def seabios(recorder: Recorder) -> None:
    with recorder.machine(*_MENU, *_CARD, "-hda", str(_empty_disk(recorder))) as machine:
        recorder.until(machine, vga, "Press ESC for boot menu")
        recorder.keep(machine, "seabios_post", "post_screen", vga)
        machine.keys("esc")
        recorder.until(machine, vga, r"Select boot device:\n(.*\n)*2\. ")
        recorder.keep(machine, "seabios_boot_menu", "boot_device_menu", vga)


def nothing_to_boot(recorder: Recorder) -> None:
    with recorder.machine("-hda", str(_empty_disk(recorder))) as machine:
        recorder.until(machine, vga, "No bootable device")
        recorder.keep(machine, "seabios_no_device", "no_boot_device", vga)
    with recorder.machine(*_CARD, "-boot", "n") as machine:
        recorder.until(machine, vga, "iPXE initialising devices|Features:")
        recorder.keep(machine, "ipxe_banner", "pxe_boot", vga)
        recorder.until(machine, vga, r"Configuring \(net0")
        recorder.keep(machine, "ipxe_configuring", "pxe_boot", vga)
        recorder.until(machine, vga, "Nothing to boot|No more network devices|No bootable device")
        recorder.until(machine, vga, "No bootable device")
        recorder.keep(machine, "ipxe_failed", "no_boot_device", vga)


def ipxe_shell(recorder: Recorder) -> None:
    with recorder.machine(*_CARD, "-boot", "n") as machine:
        recorder.until(machine, vga, "Ctrl-B")
        machine.keys("ctrl+b")
        recorder.until(machine, vga, "^iPXE>")
        recorder.keep(machine, "ipxe_shell", "pxe_shell", vga)
        machine.type("ifstat\n")
        recorder.until(machine, vga, r"\[Link:.*\n(.*\n)*iPXE>")
        recorder.keep(machine, "ipxe_shell_ifstat", "pxe_shell", vga)


def grub_text(recorder: Recorder) -> None:
    cdrom = media.grub_cdrom(recorder.folder(), "set timeout=-1\n")
    with recorder.machine("-cdrom", str(cdrom)) as machine:
        recorder.until(machine, vga, "for a command-line")
        machine.keys("down")
        machine.until_still()
        recorder.keep(machine, "grub_menu", "grub_menu", vga)
        machine.keys("e")
        recorder.until(machine, vga, "Emacs-like")
        recorder.keep(machine, "grub_edit", "grub_edit", vga)
        machine.keys("esc", "c")
        recorder.until(machine, vga, "^grub>")
        machine.type("ls\nset\n")
        machine.until_still()
        recorder.keep(machine, "grub_command_line", "grub_cmdline", vga)


def grub_countdown(recorder: Recorder) -> None:
    cdrom = media.grub_cdrom(recorder.folder(), "set timeout=50\n")
    with recorder.machine("-cdrom", str(cdrom)) as machine:
        recorder.until(machine, vga, r"automatically in 4\ds")
        recorder.keep(machine, "grub_countdown", "grub_menu", vga)


def grub_rescue(recorder: Recorder) -> None:
    disk = media.grub_without_its_files(recorder.folder())
    with recorder.machine("-drive", f"format=raw,file={disk}") as machine:
        recorder.until(machine, vga, "^grub rescue>")
        recorder.keep(machine, "grub_rescue", "grub_rescue", vga)


def grub_graphical(recorder: Recorder) -> None:
    for mode, columns, rows in (("1024x768", 125, 46), ("640x480", 77, 28)):
        settings = _MIRRORED.format(mode=mode, columns=columns, rows=rows)
        cdrom = media.grub_cdrom(recorder.folder(), settings)
        truth = partial(mirror, columns=columns, rows=rows)
        with recorder.machine("-cdrom", str(cdrom)) as machine:
            machine.until_serial("command-line")
            machine.until_still()
            recorder.keep(machine, f"grub_graphical_menu_{mode}", "grub_menu", truth)
            machine.keys("e")
            machine.until_serial("Emacs-like")
            machine.until_still()
            # Below the widest terminals the two break the help below the editor at different words.
            recorder.keep(
                machine, f"grub_graphical_edit_{mode}", "grub_edit", truth if columns > 80 else None
            )
            machine.keys("esc", "c")
            machine.until_serial("grub> ")
            machine.type("ls (cd)/boot/grub\n")
            machine.until_still()
            recorder.keep(machine, f"grub_graphical_command_line_{mode}", "grub_cmdline", truth)


def grub_wide(recorder: Recorder) -> None:
    columns, rows = 125, 46
    settings = _MIRRORED.format(mode="1024x768", columns=columns, rows=rows)
    entries = "".join(
        f'menuentry "{name}" {{ true }}\n'
        for name in ("安装简体中文系统", "日本語でインストール", "한국어 설치")
    )
    cdrom = media.grub_cdrom(recorder.folder(), settings + entries)
    with recorder.machine("-cdrom", str(cdrom)) as machine:
        machine.until_serial("command-line")
        machine.until_still()
        recorder.keep(
            machine, "grub_graphical_menu_wide", "grub_menu", partial(mirror, columns=columns, rows=rows)
        )


def isolinux(recorder: Recorder) -> None:
    entries = (
        "TIMEOUT 0\nPROMPT 0\nMENU TITLE Installer boot menu\nDEFAULT {}\n"
        "LABEL install\nMENU LABEL ^Install\nKERNEL linux\nAPPEND quiet\n"
        "LABEL rescue\nMENU LABEL ^Rescue mode\nKERNEL linux\n"
    )
    modules = ("menu.c32", "vesamenu.c32")
    for module in modules:
        cdrom = media.isolinux_cdrom(recorder.folder(), entries.format(module), modules, {})
        with recorder.machine("-cdrom", str(cdrom)) as machine:
            if module == "menu.c32":
                recorder.until(machine, vga, "Press .Tab. to edit options")
                recorder.keep(machine, "isolinux_menu", "grub_menu", vga)
            else:
                recorder.until(machine, vga, "Booting from DVD/CD")
                machine.until_still(seconds=4)
                recorder.keep(machine, "isolinux_vesa_menu", "grub_menu")
    cdrom = media.isolinux_cdrom(
        recorder.folder(), "PROMPT 1\nTIMEOUT 0\nLABEL linux\nKERNEL linux\n", (), {}
    )
    with recorder.machine("-cdrom", str(cdrom)) as machine:
        recorder.until(machine, vga, "^boot:")
        recorder.keep(machine, "isolinux_prompt", "grub_cmdline", vga)


def isolinux_debian(recorder: Recorder) -> None:
    """The menu of Debian's own media in its colours, over a picture of ours."""
    screens = media.INSTALLER / "text/debian-installer/amd64/boot-screens"
    files = {path.name: path for path in screens.iterdir()}
    files["splash.png"] = media.backdrop(recorder.folder() / "splash.png")
    config = (screens / "syslinux.cfg").read_text()
    cdrom = media.isolinux_cdrom(
        recorder.folder(), config, (), files, prefix="debian-installer/amd64/boot-screens/"
    )
    with recorder.machine("-cdrom", str(cdrom)) as machine:
        recorder.until(machine, vga, "Booting from DVD/CD")
        machine.until_colours(64)
        machine.until_still(seconds=2)
        recorder.keep(machine, "isolinux_debian_menu", "grub_menu")
        machine.keys("down")
        machine.until_still(seconds=2)
        recorder.keep(machine, "isolinux_debian_menu_second", "grub_menu")


def memtest(recorder: Recorder) -> None:
    with recorder.machine("-m", "256", "-kernel", str(media.MEMTEST)) as machine:
        recorder.until(machine, vga, "Memtest86")
        machine.until_still(seconds=0.2)
        recorder.keep(machine, "memtest_start", "memtest", vga)
        recorder.until(machine, vga, r"Pass +\d+%|Pass.*[1-9]%")
        recorder.keep(machine, "memtest", "memtest", vga)


def _empty_disk(recorder: Recorder) -> str:
    disk = recorder.folder() / "empty.img"
    disk.write_bytes(bytes(1 << 20))
    return str(disk)


SCENES = (
    seabios, nothing_to_boot, ipxe_shell, grub_text, grub_countdown, grub_rescue, grub_graphical, grub_wide, isolinux,
    isolinux_debian, memtest,
)  # fmt: skip
