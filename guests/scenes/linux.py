"""A Debian system from its kernel to its prompts, in VGA text mode and on framebuffers."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from guests import linux, media
from guests.record import Recorder
from guests.truth import vcs, vga
from guests.vm import Machine

_OPTIONS = ("-m", "1024")
_LUKS = {"etc/crypttab": "vda_crypt /dev/vda none plain,cipher=aes-xts-plain64,size=512\n"}
_FONTS = {
    "8x8": "Lat15-VGA8",
    "8x14": "Lat15-VGA14",
    "8x16": "Lat15-VGA16",
    "8x16_terminus": "Lat15-Terminus16",
    "8x16_fixed": "Lat15-Fixed16",
    "16x32": "Lat15-Terminus32x16",
    "16x32_bold": "Lat15-TerminusBold32x16",
    "16x32_vga": "Lat15-VGA32x16",
}
_TASKS = """Calling task_partition
Partitioning local harddisks using setup-storage
Executing: parted -s /dev/vda mklabel msdos
Executing: mkfs.ext4 /dev/vda1
Calling task_mountdisks
Enable swap device /dev/vda2 device_size=512000KiB
Mounting /dev/vda1 to /target
Calling task_extrbase
Unpacking Debian base archive
"""
_PROFILES = '"Simple" "One partition, no desktop" "Desktop" "With a desktop" "Inventory" "Show the hardware"'
_ASK = r"""
echo
echo "Press <RETURN> to reboot (do not remove your removable medium yet)."
read answer
"""
_FAI = {
    "fai/profile": f'dialog --title " FAI - Fully Automatic Installation " --menu '
    f'"\nSelect your FAI profile\n\nThe profile defines a list of classes.\n\n" 15 70 0 {_PROFILES}\n',
    "fai/warning": 'dialog --colors --backtitle " FAI - Fully Automatic Installation" --title "WARNING" --yesno '
    '"\n If you continue,\n all your data on the disk\n\n \\Zr\\Z1 WILL BE DESTROYED \\Z0\\ZR\n" 12 40\n',
    "fai/tasks": f"cat <<END\n{_TASKS}END\nread answer\n",
    "fai/done": f"cat <<END\n{_TASKS}Calling task_finish\nThe install took 93 seconds.\nCalling task_chboot\n"
    f"Congratulations! No errors found in log files.\nEND{_ASK}",
    "fai/errors": f"cat <<END\n{_TASKS}Calling task_savelog\nERRORS found in log files. "
    f"See /tmp/fai/error.log\nEND{_ASK}",
    "fai/fatal": "cat <<END\nCalling task_partition\nError in task partition. Code: 710\n"
    "FATAL ERROR. Installation stopped.\nEND\nread answer\n",
}
_SIZES = {"1280x1024": "8x16", "1024x768": "8x14", "800x600": "8x8", "1920x1080": "16x32"}


def kernel_and_systemd(recorder: Recorder) -> None:
    with recorder.machine(*_boot("console=tty0", _system()), *_disk(recorder)) as machine:
        recorder.until(machine, vga, r"\] .*\n.*\] .*\n.*\] ")
        recorder.keep(machine, "linux_kernel_start", "booting", vga)
        recorder.until(machine, vga, "Unpacking initramfs|Run /init")
        recorder.keep(machine, "linux_kernel", "booting", vga)
        recorder.until(machine, vga, r"\[  OK  \] .*\n(.*\n)*\[  OK  \]")
        recorder.keep(machine, "systemd_boot_text", "booting", vga)
        recorder.until(machine, vga, "^lab login:")
        machine.until_still()
        recorder.keep(machine, "login", "login_prompt", vga)
        machine.type("root\n")
        recorder.until(machine, vga, "^Password:")
        recorder.keep(machine, "login_password", None, vga)
        machine.type("root\n")
        recorder.until(machine, vga, "^root@lab:~#")
        recorder.keep(machine, "shell", "shell_prompt", vga)
        _in_the_shell(recorder, machine)
        machine.type("clear; systemctl reboot\n")
        recorder.until(machine, vga, "Stopping|Stopped|Reached")
        recorder.keep(machine, "systemd_stopping", None, vga)


def _in_the_shell(recorder: Recorder, machine: Machine) -> None:
    machine.type("clear; dmesg | tail -n 40\n")
    machine.until_still()
    recorder.keep(machine, "shell_dmesg", "shell_prompt", vga)
    machine.type("clear; ls -C -w 78 --color=always /usr/bin | head -n 60\n")
    machine.until_still()
    recorder.keep(machine, "shell_listing", "shell_prompt", vga)
    machine.type("clear; more /etc/login.defs\n")
    machine.until_still()
    recorder.keep(machine, "pager", None, vga)
    machine.type("q")
    machine.type("clear; cryptsetup open --type plain /dev/vda secret\n")
    recorder.until(machine, vga, "Enter passphrase")
    recorder.keep(machine, "cryptsetup_passphrase", "disk_unlock", vga)
    machine.keys("ctrl+c")
    machine.type('clear; /lib/cryptsetup/askpass "Please unlock disk vda5_crypt: "\n')
    recorder.until(machine, vga, "Please unlock disk vda5_crypt:")
    recorder.keep(machine, "initramfs_passphrase", "disk_unlock", vga)
    machine.keys("ctrl+c")
    machine.type("clear\n")


def passphrase(recorder: Recorder) -> None:
    system = linux.with_files(_system(), _LUKS, recorder.folder())
    with recorder.machine(*_boot("console=tty0", system), *_disk(recorder)) as machine:
        recorder.until(machine, vga, "enter passphrase for")
        machine.until_still(seconds=5)
        recorder.keep(machine, "systemd_passphrase", "disk_unlock", vga)


def rescue(recorder: Recorder) -> None:
    for target in ("rescue", "emergency"):
        with recorder.machine(*_boot(f"console=tty0 systemd.unit={target}.target", _system())) as machine:
            recorder.until(machine, vga, "to continue|maintenance")
            machine.until_still()
            recorder.keep(machine, f"systemd_{target}", "rescue_shell", vga)
            machine.type("root\n")
            recorder.until(machine, vga, "^root@lab:~#")
            recorder.keep(machine, f"systemd_{target}_shell", "rescue_shell", vga)

    system = linux.with_files(_system(), {"etc/shadow": "root:*:20000:0:99999:7:::\n"}, recorder.folder())
    with recorder.machine(*_boot("console=tty0 systemd.unit=rescue.target", system)) as machine:
        recorder.until(machine, vga, "Press Enter to continue")
        machine.until_still()
        recorder.keep(machine, "systemd_rescue_locked", "rescue_shell", vga)


def fai(recorder: Recorder) -> None:
    """Screens like those of FAI's installation CD, drawn by the program that it uses and by `cat`."""
    system = linux.with_files(_system(), _FAI, recorder.folder())
    with recorder.machine(*_boot("quiet console=ttyS0 console=tty0", system)) as machine:
        _log_in(recorder, machine)
        for name, phase, said in (
            ("profile", "installer_welcome", "<  OK  >"),
            ("warning", "installer_partitioning", "< Yes >"),
            ("tasks", "installer_progress", "Unpacking"),
            ("done", "installer_complete", "Press <RETURN>"),
            ("errors", "installer_error", "Press <RETURN>"),
            ("fatal", "installer_error", "FATAL"),
        ):
            machine.type(f"clear; sh /fai/{name}\n")
            recorder.until(machine, vga, said)
            machine.until_still()
            recorder.keep(machine, f"fai_{name}", phase, vga)
            machine.keys("ret")
            machine.until_still()


def initramfs_shell(recorder: Recorder) -> None:
    initrd = Path(str(linux.kernel()).replace("vmlinuz", "initrd.img"))
    with recorder.machine(*_boot("root=/dev/vda9 rootdelay=1 console=tty0", initrd)) as machine:
        recorder.until(machine, vga, r"^\(initramfs\)")
        machine.until_still()
        recorder.keep(machine, "initramfs_shell", "rescue_shell", vga)


def panic(recorder: Recorder) -> None:
    with recorder.machine("-kernel", str(linux.kernel()), "-append", "console=tty0", *_OPTIONS) as machine:
        recorder.until(machine, vga, "end Kernel panic")
        recorder.keep(machine, "kernel_panic", "crash_screen", vga)
    options = ("-append", "console=tty0 init=/sbin/init rdinit=/bin/false")
    with recorder.machine("-kernel", str(linux.kernel()), "-initrd", str(_system()), *options,
                          *_OPTIONS) as machine:  # fmt: skip
        recorder.until(machine, vga, "end Kernel panic")
        recorder.keep(machine, "kernel_panic_init", "crash_screen", vga)


def text_fonts(recorder: Recorder) -> None:
    with recorder.machine(*_boot("quiet console=ttyS0 console=tty0", _system())) as machine:
        _log_in(recorder, machine)
        for name in ("8x8", "8x14", "8x16_fixed"):
            machine.type(
                f"setfont {_FONTS[name]}; clear; ls -C -w 78 /usr/bin | head -n 16; cat /etc/latin\n"
            )
            machine.until_still()
            recorder.keep_answered(machine, f"text_{name}", "shell_prompt", vcs)


def framebuffers(recorder: Recorder) -> None:
    for size, first in _SIZES.items():
        folder = recorder.folder()
        width, height = size.split("x")
        display = ("-vga", "none", "-device", f"VGA,xres={width},yres={height}")
        system = _boot("quiet console=ttyS0 console=tty0", _system())
        with recorder.machine(*media.uefi(folder), *display, *system, folder=folder) as machine:
            _log_in(recorder, machine)
            for name, font in _FONTS.items() if size == "1280x1024" else [(first, _FONTS[first])]:
                machine.type(f"setfont {font}; clear; ls -C -w 78 /usr/bin | head -n 20; cat /etc/latin\n")
                machine.until_still()
                recorder.keep_answered(machine, f"framebuffer_{size}_{name}", "shell_prompt", vcs)
            if size == "1280x1024":
                machine.type("dmesg | tail -n 200; clear; dmesg\n")
                machine.until_still()
                recorder.keep_answered(machine, f"framebuffer_{size}_dmesg", "shell_prompt", vcs)
            machine.type("exit\n")
            machine.until_still()
            recorder.keep_answered(machine, f"framebuffer_{size}_login", "login_prompt", vcs)


def _log_in(recorder: Recorder, machine: Machine) -> None:
    machine.until_serial("lab login:")
    for said, answer in (("^lab login:", "root\n"), ("^Password:", "root\n")):
        recorder.until(machine, vcs, said)
        machine.type(answer)
    recorder.until(machine, vcs, "^root@lab:~#")


def _boot(options: str, initrd: Path) -> tuple[str, ...]:
    return (
        "-kernel",
        str(linux.kernel()),
        "-initrd",
        str(initrd),
        "-append",
        f"{options} no_timer_check",
        *_OPTIONS,
    )


@cache
def _system() -> Path:
    """The system, built once for all scenes of a recording."""
    folder = Path(tempfile.mkdtemp(prefix="reflexarc-record-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return linux.initramfs(folder)


def _disk(recorder: Recorder) -> tuple[str, ...]:
    disk = recorder.folder() / "disk.img"
    disk.write_bytes(bytes(8 << 20))
    return ("-drive", f"if=virtio,format=raw,file={disk}")


SCENES = (
    fai, kernel_and_systemd, passphrase, rescue, initramfs_shell, panic, text_fonts, framebuffers,
)  # fmt: skip
