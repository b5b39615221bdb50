"""The stimulus guest: Debian's cloud kernel and BusyBox, which shows a boot menu when it is told to."""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reflexarc.demo.debian import candidates, fetch, merged_root, needed, run, unpack

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reflexarc-bench"
MEMORY_MIB = 256

_INIT = Path(__file__).with_name("init")
_PACKAGES = ("busybox-static", "linux-image-cloud-amd64")
_TOOLS = ("sh", "mount", "stty")
# The log of a kernel that boots would be on the screen for some seconds of every start.
_KERNEL_OPTIONS = "quiet loglevel=0 nomodeset console=tty0"


class Guest(Protocol):
    """A guest that shows a menu when it is told to, and says on a serial port what becomes of it.

    settings: lines of its machine's `qemu` table. delays: it takes `DELAY\\n` and waits by itself; one that can't
    shows the menu on any byte.
    """

    @property
    def settings(self) -> str: ...

    @property
    def delays(self) -> bool: ...

    def qemu(self, folder: Path) -> Path:
        """Write a program that is a QEMU with this guest, its serial port at `folder`/reaction."""
        ...


@dataclass(frozen=True)
class StimulusGuest:
    """A kernel and an initramfs for QEMU."""

    kernel: Path
    initrd: Path
    settings: str = ""
    delays: bool = True

    def qemu(self, folder: Path) -> Path:
        """Write a program that is a QEMU with this guest, its second serial port at `folder`/reaction."""
        program = folder / "qemu-with-stimulus"
        added = [
            "-kernel", str(self.kernel), "-initrd", str(self.initrd), "-append", _KERNEL_OPTIONS,
            "-chardev", f"socket,id=reaction,path={folder / 'reaction'},server=on,wait=off",
            "-serial", "chardev:reaction",
        ]  # fmt: skip
        program.write_text(f'#!/bin/sh\nexec qemu-system-x86_64 "$@" {shlex.join(added)}\n')
        program.chmod(0o755)
        return program


def stimulus_guest() -> StimulusGuest:
    """Return the guest, built from Debian packages unless the cache has it.

    Raises reflexarc.errors.ConfigError when apt can't provide it.
    """
    parts = repr((sorted(candidates(_PACKAGES).items()), _INIT.read_text())).encode()
    folder = CACHE / f"guest-{hashlib.sha256(parts).hexdigest()[:16]}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as workshop:
            _build(Path(workshop)).rename(folder)
    return StimulusGuest(folder / "vmlinuz", folder / "initrd")


def _build(workshop: Path) -> Path:
    built, root, downloads = workshop / "guest", workshop / "root", workshop / "debs"
    for folder in (built, root / "bin", root / "dev", root / "proc", downloads):
        folder.mkdir(parents=True)
    wanted = [name for name in needed(_PACKAGES, workshop) if name.startswith(("busybox", "linux-image-"))]
    packages = merged_root(workshop / "packages")
    unpack(fetch(wanted, downloads), packages)
    shutil.copy(next((packages / "boot").glob("vmlinuz-*")), built / "vmlinuz")
    shutil.copy(packages / "bin/busybox", root / "bin/busybox")
    for tool in _TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    shutil.copy(_INIT, root / "init")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    archive = run(
        ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
        doing="packing the guest",
        stdin=names.encode(),
        folder=root,
    )
    (built / "initrd").write_bytes(gzip.compress(archive))
    return built
