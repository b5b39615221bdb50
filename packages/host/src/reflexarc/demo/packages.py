"""What the demo needs of the host, and which apt package has it."""

from __future__ import annotations

import shutil
from pathlib import Path

# program on PATH -> Debian package
_PROGRAMS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "tar": "tar",
    "cpio": "cpio",
    "xorriso": "xorriso",
    "grub-mkrescue": "grub-common",
    "mformat": "mtools",
    "qemu-system-x86_64": "qemu-system-x86",
}

GRUB_PLATFORM = Path("/usr/lib/grub/i386-pc")


def missing() -> list[str]:
    """Name the Debian packages to install before the demo can run; empty where all is there."""
    packages = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    if not (GRUB_PLATFORM / "boot_hybrid.img").is_file():
        packages.append("grub-pc-bin")
    return packages
