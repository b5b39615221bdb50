"""Guests for the tests, built from Debian packages: CD-ROMs with GRUB, and two small Linuxes.

Packages: grub-pc-bin, grub-efi-amd64-bin, grub-common, xorriso, mtools, busybox-static, cpio, kmod. The
kernels are downloaded once where they are not installed, and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reflexarc.demo.debian import candidates, fetch, merged_root, needed, unpack

# Each entry does its deed and leaves the menu open; the hotkey is the first letter.
GRUB_CONFIG = """
set timeout=-1
set gfxmode=1024x768
insmod all_video
loadfont unicode
menuentry "text" --hotkey=t { terminal_output console }
menuentry "graphics" --hotkey=g { set gfxmode=1024x768; terminal_output console; terminal_output gfxterm }
menuentry "planar" --hotkey=p { set gfxmode=640x480x4; terminal_output console; terminal_output gfxterm }
menuentry "halt" --hotkey=h { halt }
"""

# Shows a menu in graphics of the given size, to tell by which of several images a machine started from.
GRUB_IN_MODE = """
set timeout=-1
set gfxmode={mode}
insmod all_video
loadfont unicode
terminal_output gfxterm
menuentry "started from {mode}" {{ true }}
"""

# Says READY when it is up, echoes the lines it reads from either keyboard to the serial port, obeys the power
# button. Both terminals stay open: what is typed at one that nobody has open is thrown away.
INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
load evdev button
mkdir -p /etc/acpi/PWRF
printf '#!/bin/sh\\npoweroff -f\\n' > /etc/acpi/PWRF/00000080
chmod +x /etc/acpi/PWRF/00000080
acpid -l /dev/null
exec 3<> /dev/ttyS0 4< /dev/tty1
while read line <&3; do echo "serial [$line]" >&3; done &
echo READY >&3
while read line <&4; do echo "keyboard [$line]" >&3; done
"""


# Runs each line that the serial port brings; its kernel has drivers for all that QEMU offers, `load` loads them.
DESK_INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
exec 3<> /dev/ttyS0
stty -echo <&3
echo READY >&3
exec < /dev/null >&3 2>&1
while read -r line <&3; do eval "$line"; done
"""

# Reports what the tablet does, an event a line: four words of time, type, code, value (linux/input.h). One program
# for all of them: a slow guest that started three for each would take minutes.
POINTER_REPORT = """
load xhci-pci hid-generic usbhid evdev
until grep -q Tablet /sys/class/input/event*/device/name; do :; done
tablet=$(grep -l Tablet /sys/class/input/event*/device/name); tablet=${tablet#/sys/class/input/}
exec 5< /dev/input/${tablet%/device/name}
hexdump -v -e '4/4 "%u " 1/2 "%u " 1/2 "%u " 1/4 "%d\\n"' <&5 &
echo POINTER
"""

# Shows the recorded screens of an installation, one after the other; a shell sits at the serial port.
INSTALLER_INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
show() { printf '\\033[2J\\033[H\\033[?25l' > /dev/tty1; cat /screens/$1 > /dev/tty1; }
show progress
setsid sh -c 'PS1="# " exec sh -i < /dev/ttyS0 > /dev/ttyS0 2>&1' &
sleep 3
show complete
while :; do sleep 1000; done
"""

INSTALLER_CONFIG = """
set timeout=-1
menuentry "Install" { linux /vmlinuz quiet; initrd /initrd }
menuentry "Something else" { true }
"""

# Loads modules with what they need, in the order that was worked out when the guest was built.
LOAD = """#!/bin/sh
for name; do
    while read file; do insmod /modules/$file 2> /dev/null; done < /modules/$name
done
true
"""

# Runs one program of Python's, which talks to the serial port.
PYTHON_INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
ls /modules | grep -v '[.]ko$' | xargs load
ip link set lo up
ip link set eth0 up 2> /dev/null && ip address add 10.0.2.15/24 dev eth0
exec /usr/bin/python3 -E -s -S /program.py < /dev/null > /dev/ttyS0 2>&1
"""
PYTHON_PACKAGES = ("python3", "libpython3", "libc6", "libexpat1", "zlib1g")

BASIC_MODULES = ("evdev", "button")
DESK_MODULES = (
    *BASIC_MODULES, "xhci-pci", "hid-generic", "usbhid", "bochs", "virtio-gpu", "virtio-pci", "ata_piix",
    "ahci", "sr_mod", "sd_mod", "virtio_blk", "isofs",
)  # fmt: skip


def build_cdrom(folder: Path, config: str = GRUB_CONFIG) -> Path:
    """Build an image that boots into a GRUB menu, in an empty folder, and return its path.

    It boots as a disk, too, and on UEFI as well as on BIOS firmware.
    """
    (folder / "tree/boot/grub").mkdir(parents=True, exist_ok=True)
    (folder / "tree/boot/grub/grub.cfg").write_text(config)
    image = folder / "grub.iso"
    subprocess.run(["grub-mkrescue", "-o", image, folder / "tree"], check=True, capture_output=True)
    return image


def build_installer(folder: Path, progress: Path, complete: Path) -> Path:
    """Build an image in an empty folder that boots into GRUB's menu, and then shows these texts of screens."""
    kernel = cloud_kernel()
    (folder / "tree").mkdir(parents=True)
    screens = {
        "screens/progress": progress.read_text().rstrip(),
        "screens/complete": complete.read_text().rstrip(),
    }
    _initrd(folder / "root", kernel, INSTALLER_INIT, (), folder / "tree/initrd", screens)
    shutil.copy(kernel.image, folder / "tree/vmlinuz")
    return build_cdrom(folder, INSTALLER_CONFIG)


@dataclass(frozen=True)
class Kernel:
    """A kernel: its image, and the folder that has its `lib/modules`."""

    image: Path
    root: Path

    @property
    def release(self) -> str:
        return self.image.name.removeprefix("vmlinuz-")


def cloud_kernel() -> Kernel:
    """Debian's kernel for virtual machines, without drivers for hardware."""
    installed = sorted(Path("/boot").glob("vmlinuz-*-cloud-amd64"))
    return Kernel(installed[-1], Path("/")) if installed else _downloaded("linux-image-cloud-amd64")


def full_kernel() -> Kernel:
    """Debian's kernel with all drivers."""
    return _downloaded("linux-image-amd64")


def build_linux(folder: Path) -> Path:
    """Build a Linux in an empty folder and return a program that is a QEMU which boots it."""
    return _program(folder, cloud_kernel(), INIT, BASIC_MODULES)


def build_desk(folder: Path) -> Path:
    """Build a Linux with a shell on its serial port in an empty folder; return a QEMU which boots it."""
    return _program(folder, full_kernel(), DESK_INIT, DESK_MODULES)


def build_guest(root: Path, init: str, modules: Sequence[str], image: Path) -> None:
    """Add busybox, modules of the cloud kernel and an init to a tree, and pack it as an initramfs."""
    _initrd(root, cloud_kernel(), init, modules, image)


def build_python(folder: Path, program: str, modules: Sequence[str]) -> Path:
    """Build a Linux whose only process is a Python program in an empty folder; return a QEMU which boots it."""
    qemu = _program(folder, cloud_kernel(), PYTHON_INIT, modules, {"program.py": program})
    image = folder / "initrd"
    with image.open("ab") as out:
        out.write(bytes(-out.tell() % 512) + _python().read_bytes())
    return qemu


def _python() -> Path:
    """An archive of Debian's smallest Python, from the cache, made from packages where it isn't there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reflexarc/kernels"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        names = [
            name for name in needed(["python3-minimal"], Path(scratch)) if name.startswith(PYTHON_PACKAGES)
        ]
        version = hashlib.sha256(repr(sorted(candidates(names).items())).encode()).hexdigest()[:16]
        found = cache / f"python-{version}.cpio"
        if not found.exists():
            root = merged_root(Path(scratch, "root"))
            unpack(fetch(names, Path(scratch)), root)
            for useless in ("usr/share", "usr/lib/x86_64-linux-gnu/gconv", "usr/sbin", "sbin", "etc"):
                path = root / useless
                path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
            # The other archive has a folder of that name, with BusyBox in it.
            (root / "bin").unlink()
            _pack(root, Path(scratch, "archive"))
            Path(scratch, "archive").rename(found)
    return found


def _downloaded(package: str) -> Kernel:
    """The kernel that the package stands for, from the cache, downloaded by apt where it isn't there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reflexarc/kernels"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        version = next(name for name in needed([package], Path(scratch)) if name.startswith("linux-image-6"))
        root = cache / version
        if not root.exists():
            (archive,) = fetch([version], Path(scratch))
            subprocess.run(["dpkg-deb", "-x", archive, f"{scratch}/root"], check=True)
            (release,) = (Path(scratch) / "root/lib/modules").iterdir()
            subprocess.run(["depmod", "-b", f"{scratch}/root", release.name], check=True)
            Path(scratch, "root").rename(root)
    return Kernel(next((root / "boot").glob("vmlinuz-*")), root)


def _program(
    folder: Path, kernel: Kernel, init: str, modules: Sequence[str], files: Mapping[str, str] | None = None
) -> Path:
    _initrd(folder / "root", kernel, init, modules, folder / "initrd", files)
    program = folder / "qemu-with-linux"
    loaded = ["-kernel", str(kernel.image), "-initrd", str(folder / "initrd")]
    kernel_options = ["-append", "quiet console=ttyS0 console=tty0"]
    program.write_text(f'#!/bin/sh\nexec qemu-system-x86_64 "$@" {shlex.join(loaded + kernel_options)}\n')
    program.chmod(0o755)
    return program


def _initrd(
    root: Path,
    kernel: Kernel,
    init: str,
    modules: Sequence[str],
    image: Path,
    files: Mapping[str, str] | None = None,
) -> None:
    for name in ("bin", "dev", "proc", "sys", "modules"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    subprocess.run([root / "bin/busybox", "--install", "-s", root / "bin"], check=True)
    for link in (root / "bin").iterdir():
        if link.is_symlink():
            link.unlink()
            link.symlink_to("busybox")
    for name in modules:
        _module(name, kernel, root / "modules")
    for path, script in ((root / "bin/load", LOAD), (root / "init", init)):
        path.write_text(script)
        path.chmod(0o755)
    for name, text in (files or {}).items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    _pack(root, image)


def _pack(root: Path, image: Path) -> None:
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    with open(image, "wb") as out:
        subprocess.run(
            ["cpio", "-o", "-H", "newc"],
            cwd=root, input=names.encode(), stdout=out, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip


def _module(name: str, kernel: Kernel, folder: Path) -> None:
    """Copy a module and what it needs, unpacked where the distribution packs them, and note the order."""
    shown = subprocess.run(
        ["modprobe", "--show-depends", "-d", kernel.root, "-S", kernel.release, name],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    order = []
    for line in shown.stdout.splitlines():
        if line.startswith("insmod "):
            source = Path(line.split()[1])
            target = folder / source.name.removesuffix(".xz")
            if not target.exists():
                packed = source.suffix == ".xz"
                target.write_bytes(lzma.decompress(source.read_bytes()) if packed else source.read_bytes())
            order.append(target.name)
    (folder / name).write_text("".join(f"{one}\n" for one in order))
