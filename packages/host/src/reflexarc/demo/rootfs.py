"""The demo guest's initramfs: a Debian login on BusyBox's init, picked out of unpacked packages."""

from __future__ import annotations

import gzip
import lzma
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from reflexarc.demo.debian import merged_root, run
from reflexarc.errors import ConfigError

PACKAGES = (
    "base-files",
    "bash",
    "busybox-static",
    "coreutils",
    "dash",
    "debianutils",
    "libc6",
    "libpam-modules",
    "libpam-runtime",
    "login",
    "ncurses-base",
    "util-linux",
)

FILES = Path(__file__).parent / "files" / "root"

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = "ld-linux-x86-64.so.2"
_PROGRAMS = (
    "bin/bash",
    "bin/dash",
    "bin/login",
    "bin/run-parts",
    "sbin/agetty",
    "sbin/unix_chkpwd",
    "usr/bin/env",
)
_MODULES = ("button.ko", "evdev.ko")  # the power button, and what acpid hears it through
_TREES = ("etc", "usr/share/base-files", "usr/share/terminfo", "lib/terminfo")
# as the postinst scripts of base-files and libpam-runtime leave them
_POSTINST = {
    "usr/share/base-files/motd": "etc/motd",
    "usr/share/base-files/profile": "etc/profile",
    "usr/share/base-files/dot.bashrc": "root/.bashrc",
    "usr/share/base-files/dot.profile": "root/.profile",
    "usr/share/pam/common-session-noninteractive": "etc/pam.d/common-session-noninteractive",
}
_DIRECTORIES = ("dev", "proc", "sys", "run", "tmp", "root", "var/log", "var/mail", "mnt")


def initramfs(packages: Path, password: str) -> bytes:
    """Return a gzipped initramfs made from a tree of unpacked packages; root logs in with `password`.

    The tree is left as it was but for a folder `initramfs` beside it.

    Raises ConfigError when a package lacks what is expected of it.
    """
    root = merged_root(packages.with_name("initramfs"))
    for name in _DIRECTORIES:
        (root / name).mkdir(parents=True, exist_ok=True)
    _programs(packages, root)
    _configuration(packages, root, password)
    _modules(packages, root)
    names = "\n".join(sorted(str(path.relative_to(root)) for path in root.rglob("*")))
    archive = run(
        ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
        doing="packing the initramfs",
        stdin=names.encode(),
        folder=root,
    )
    return gzip.compress(archive, 6, mtime=0)


def _programs(packages: Path, root: Path) -> None:
    stacks = "".join(
        file.read_text() for tree in (packages, FILES) for file in (tree / "etc/pam.d").iterdir()
    )
    plugins = (packages / _LIBRARIES / "security").glob("*.so")
    programs = [packages / name for name in _PROGRAMS] + [file for file in plugins if file.name in stacks]
    for file in {*programs, *_libraries(packages, programs)}:
        _copy(file, root / file.relative_to(packages))
    (root / "bin/sh").symlink_to("dash")
    (root / "lib64" / _LOADER).symlink_to(f"/{_LIBRARIES}/{_LOADER}")
    _link_busybox(packages, root)


def _link_busybox(packages: Path, root: Path) -> None:
    """Link every BusyBox program that no other package brought."""
    busybox = packages / "bin/busybox"
    _copy(busybox, root / "bin/busybox")
    for applet in (
        run([str(busybox), "--list-full"], doing="asking BusyBox for its programs").decode().split()
    ):
        link = root / applet
        if link.parent.is_dir() and not link.exists() and not (root / "usr/bin" / link.name).exists():
            link.symlink_to("/bin/busybox")


def _libraries(packages: Path, programs: Iterable[Path]) -> Iterator[Path]:
    """Ask the packages' own loader, so that no library of the host's gets in."""
    folder = packages / _LIBRARIES
    loader = folder / _LOADER
    yield loader
    for program in programs:
        listed = run(
            [str(loader), "--inhibit-cache", "--library-path", str(folder), "--list", str(program)],
            doing=f"listing the libraries of {program.name}",
        )
        for line in listed.decode().splitlines():
            name, _, where = line.partition(" => ")
            if "not found" in where:
                raise ConfigError(f"no Debian package brought {name.strip()}, which {program.name} needs")
            if where.startswith(str(packages)):
                yield Path(where.split(" (")[0])


def _configuration(packages: Path, root: Path, password: str) -> None:
    for tree in _TREES:
        if (packages / tree).is_dir():
            shutil.copytree(packages / tree, root / tree, symlinks=True, dirs_exist_ok=True)
    for source, target in _POSTINST.items():
        if (packages / source).exists():
            _copy(packages / source, root / target)
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    for script in (root / "init", root / "etc/acpi/PWRF/00000080"):
        script.chmod(0o755)
    shadow = root / "etc/shadow"
    shadow.write_text(f"root:{_hash(packages, password)}:20000:0:99999:7:::\n")
    shadow.chmod(0o640)


def _hash(packages: Path, password: str) -> str:
    crypt = [str(packages / "bin/busybox"), "mkpasswd", "-m", "sha512", "-S", secrets.token_hex(8), "-P", "0"]
    return run(crypt, doing="hashing the password", stdin=password.encode()).decode().strip()


def _modules(packages: Path, root: Path) -> None:
    """Put kernel modules, uncompressed, where /init looks; one that is built in has no file."""
    for name in _MODULES:
        for file in (packages / "usr/lib/modules").rglob(f"{name}*"):
            data = file.read_bytes()
            (root / "lib/modules").mkdir(exist_ok=True)
            (root / "lib/modules" / name).write_bytes(lzma.decompress(data) if file.suffix == ".xz" else data)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
