"""Guests for the tests, built from what Debian installs: a CD-ROM with GRUB, and a small Linux.

Packages: grub-pc-bin, grub-common, xorriso, mtools, busybox-static, cpio, a cloud kernel.
"""

from __future__ import annotations

import lzma
import shlex
import shutil
import subprocess
from glob import glob
from pathlib import Path

# Each entry does its deed and leaves the menu open; the hotkey is the first letter.
GRUB_CONFIG = """
set timeout=-1
set gfxmode=1024x768
insmod all_video
loadfont unicode
menuentry "text" --hotkey=t { terminal_output console }
menuentry "graphics" --hotkey=g { terminal_output gfxterm }
menuentry "halt" --hotkey=h { halt }
"""

# Says READY when it is up, echoes the lines it reads from either keyboard to the serial port, obeys the power
# button. Both terminals stay open: what is typed at one that nobody has open is thrown away.
INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
insmod /evdev.ko
insmod /button.ko
mkdir -p /etc/acpi/PWRF
printf '#!/bin/sh\\npoweroff -f\\n' > /etc/acpi/PWRF/00000080
chmod +x /etc/acpi/PWRF/00000080
acpid -l /dev/null
exec 3<> /dev/ttyS0 4< /dev/tty1
while read line <&3; do echo "serial [$line]" >&3; done &
echo READY >&3
while read line <&4; do echo "keyboard [$line]" >&3; done
"""


def build_cdrom(folder: Path) -> Path:
    """Build an image that boots into a GRUB menu, in an empty folder, and return its path."""
    (folder / "tree/boot/grub").mkdir(parents=True)
    (folder / "tree/boot/grub/grub.cfg").write_text(GRUB_CONFIG)
    image = folder / "grub.iso"
    subprocess.run(["grub-mkrescue", "-o", image, folder / "tree"], check=True, capture_output=True)
    return image


def build_linux(folder: Path) -> Path:
    """Build a Linux in an empty folder and return a program that is a QEMU which boots it."""
    kernel = Path(sorted(glob("/boot/vmlinuz-*-cloud-amd64"))[-1])
    _initrd(folder / "root", kernel.name.removeprefix("vmlinuz-"), folder / "initrd")
    program = folder / "qemu-with-linux"
    loaded = ["-kernel", str(kernel), "-initrd", str(folder / "initrd")]
    kernel_options = ["-append", "quiet console=ttyS0 console=tty0"]
    program.write_text(f'#!/bin/sh\nexec qemu-system-x86_64 "$@" {shlex.join(loaded + kernel_options)}\n')
    program.chmod(0o755)
    return program


def _initrd(root: Path, release: str, image: Path) -> None:
    for name in ("bin", "dev", "proc", "sys"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for tool in ("sh", "mount", "insmod", "mkdir", "chmod", "acpid", "poweroff"):
        (root / "bin" / tool).symlink_to("busybox")
    modules = Path("/lib/modules", release, "kernel/drivers")
    for module in ("input/evdev.ko", "acpi/button.ko"):
        _module(modules / module, root / Path(module).name)
    init = root / "init"
    init.write_text(INIT)
    init.chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    with open(image, "wb") as out:
        subprocess.run(
            ["cpio", "-o", "-H", "newc"],
            cwd=root, input=names.encode(), stdout=out, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip


def _module(source: Path, target: Path) -> None:
    """Copy a kernel module, unpacked where the distribution keeps it packed."""
    packed = source.with_name(source.name + ".xz")
    target.write_bytes(lzma.decompress(packed.read_bytes()) if packed.exists() else source.read_bytes())
