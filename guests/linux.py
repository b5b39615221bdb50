"""A Debian system with systemd that lives in its initramfs, unpacked from packages without root.

It logs root in with the password `root` and tells what is on its first virtual console over its second serial
line, see `guests.truth.vcs`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from guests.media import run
from reflexarc.demo.debian import fetch, merged_root, needed, unpack

_PACKAGES = (
    "systemd-sysv", "udev", "login", "passwd", "bash", "dash", "coreutils", "util-linux", "kmod", "kbd", "procps",
    "console-setup-linux", "cryptsetup", "dialog", "whiptail", "base-files", "base-passwd", "libpam-runtime",
    "libpam-modules", "libpam-modules-bin", "ncurses-base", "ncurses-bin", "sed", "grep", "gzip", "findutils",
)  # fmt: skip
_MODULES = (
    "drivers/virtio/virtio.ko", "drivers/virtio/virtio_ring.ko", "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko", "drivers/virtio/virtio_pci.ko", "drivers/block/virtio_blk.ko",
    "drivers/md/dm-mod.ko", "drivers/md/dm-crypt.ko",
)  # fmt: skip

_TELLER = r"""#!/bin/bash
exec 3<>/dev/ttyS1
stty -F /dev/ttyS1 raw -echo
while read -r -u 3 word; do
    read -r rows columns < <(od -An -tu1 -N2 /dev/vcsa1)
    echo "screen $rows $columns" >&3
    { od -An -v -tx1 /dev/vcsu1 | tr -d ' \n'; echo; } >&3
done
"""
_TELLER_UNIT = """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/usr/local/bin/tell-screen
"""
_FILES = {
    "etc/hostname": "lab\n",
    "etc/fstab": "",
    "etc/latin": "Zürich, Straße, façade, señor, Ærø, 20 °C, ±½ µm, «naïve» ¿qué?\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "usr/local/bin/tell-screen": _TELLER,
    "etc/systemd/system/tell-screen.service": _TELLER_UNIT,
    "etc/modules-load.d/lab.conf": "virtio_pci\nvirtio_blk\ndm_crypt\n",
    "root/.bashrc": "PS1='\\u@\\h:\\w\\$ '\n",
    "root/.profile": ". ~/.bashrc\n",
}
_UNITS_WITH_TELLER = ("sysinit.target", "emergency.target", "rescue.target")


def kernel() -> Path:
    """The newest cloud kernel of the host (Debian package linux-image-cloud-amd64)."""
    found = sorted(Path("/boot").glob("vmlinuz-*-cloud-amd64"))
    if not found:
        raise RuntimeError("there is no cloud kernel: apt-get install linux-image-cloud-amd64")
    return found[-1]


def initramfs(folder: Path) -> Path:
    """Build the system in an empty folder and return its archive, which is not compressed."""
    packages, root = folder / "packages", merged_root(folder / "root")
    packages.mkdir()
    unpack(fetch(needed(_PACKAGES, packages), packages), root)
    _modules(root)
    _accounts(root)
    for name, text in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/local/bin/tell-screen").chmod(0o755)
    for unit in _UNITS_WITH_TELLER:
        wants = root / f"etc/systemd/system/{unit}.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / "tell-screen.service").symlink_to("../tell-screen.service")
    # What the scripts of the packages systemd and base-files would have done.
    getty = root / "etc/systemd/system/getty.target.wants/getty@tty1.service"
    getty.parent.mkdir(parents=True)
    getty.symlink_to("/usr/lib/systemd/system/getty@.service")
    shutil.rmtree(root / "var/run", ignore_errors=True)
    (root / "var/run").symlink_to("/run")
    (root / "init").symlink_to("usr/lib/systemd/systemd")
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    for name in ("proc", "sys", "dev", "run", "tmp", "mnt"):
        (root / name).mkdir(exist_ok=True)
    return archive(root, folder / "initramfs")


def with_files(base: Path, files: Mapping[str, str], folder: Path) -> Path:
    """An archive with further text files, or others in their place; the kernel unpacks one over the other."""
    tree = folder / "further"
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    further, joined = archive(tree, folder / "further.cpio"), folder / "joined"
    with joined.open("wb") as out:
        for part in (base, further):
            out.write(part.read_bytes())
            out.write(bytes(-out.tell() % 512))
    return joined


def archive(root: Path, output: Path) -> Path:
    """Pack a tree for the kernel, all of it owned by root."""
    names = "\n".join(sorted(str(path.relative_to(root)) for path in root.rglob("*")))
    with output.open("wb") as out:
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
            input=names.encode(), stdout=out, cwd=root, check=True,
        )  # fmt: skip
    return output


def _modules(root: Path) -> None:
    release = kernel().name.removeprefix("vmlinuz-")
    source, target = Path("/lib/modules", release), root / "usr/lib/modules" / release
    for name in (*_MODULES, *_beside(source, "crypto"), *_beside(source, "arch/x86/crypto")):
        path = target / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / "kernel" / name, path)
    for listing in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(source / listing, target)
    run("depmod", "-b", root, release)


def _beside(source: Path, folder: str) -> list[str]:
    return [f"{folder}/{path.name}" for path in (source / "kernel" / folder).glob("*.ko")]


def _accounts(root: Path) -> None:
    for name in ("passwd", "group"):
        master = (root / f"usr/share/base-passwd/{name}.master").read_text()
        (root / "etc" / name).write_text(master.replace("root:*:0:0:", "root:x:0:0:"))
    made = subprocess.run(["openssl", "passwd", "-6", "root"], capture_output=True, text=True, check=True)
    (root / "etc/shadow").write_text(f"root:{made.stdout.strip()}:20000:0:99999:7:::\n")
    with (root / "etc/group").open("a") as group:
        group.write("".join(f"{name}:x:{900 + at}:\n" for at, name in enumerate(("kvm", "render", "input"))))
    for stack in ("account", "auth", "password", "session", "session-noninteractive"):
        kind = stack.split("-")[0]
        (root / f"etc/pam.d/common-{stack}").write_text(f"{kind} required pam_unix.so\n")
