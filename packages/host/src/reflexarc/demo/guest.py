"""The demo's guest: a bootable BIOS image with GRUB's menu, Debian's kernel and a Debian login.

Source: El Torito (the boot record, by grub-mkrescue); ECMA-119, 8.4 (the volume identifier that names the build).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reflexarc.demo import debian, rootfs
from reflexarc.demo.debian import candidates, fetch, merged_root, needed, run, unpack
from reflexarc.demo.packages import GRUB_PLATFORM, missing
from reflexarc.errors import ConfigError

Progress = Callable[[str, float], None]

KERNEL = "linux-image-cloud-amd64"
_ISO_FILES = Path(__file__).parent / "files" / "iso"
_VOLUME_IDENTIFIER = slice(32768 + 40, 32768 + 72)
_MAX_PASSWORD = 64


def build_iso(target: Path, progress: Progress, *, password: str) -> Path:
    """Make the demo's image at `target` unless it is there and up to date; root logs in with `password`.

    Needs no root: packages are downloaded by apt, verified, and unpacked. `progress` gets what is being done
    and the share done, 0 to 1.

    Raises ConfigError when a tool or package is missing, a download fails or the disk is full.
    """
    _check(password)
    _check_tools()
    progress("looking at Debian's packages", 0.0)
    build = _build_name(candidates([*rootfs.PACKAGES, KERNEL]), password)
    if _volume_identifier(target) != build:
        with _full_disk(target), _workshop(target) as folder:
            image = _make(folder, build, progress, password)
            os.replace(image, target)
    progress("the demo's guest is ready", 1.0)
    return target


def _check(password: str) -> None:
    if not (0 < len(password) <= _MAX_PASSWORD and password.isascii() and password.isprintable()):
        raise ConfigError(f"the demo's password must be 1 to {_MAX_PASSWORD} printable ASCII characters")


def _check_tools() -> None:
    absent = missing()
    if "apt" in absent:
        raise ConfigError(
            "the demo's guest is built from Debian packages by apt, which is not here; it needs Debian 12 or 13 "
            f"with {', '.join(absent)}"
        )
    if absent:
        raise ConfigError(
            f"the demo's guest needs tools that are missing: apt-get install {' '.join(absent)}"
        )


def _build_name(packages: dict[str, str], password: str) -> str:
    """Name a build by all that goes into it: packages, this builder and its files, the password."""
    digest = hashlib.sha256(repr((sorted(packages.items()), password)).encode())
    for source in (Path(__file__), Path(rootfs.__file__), Path(debian.__file__), *_files()):
        digest.update(source.read_bytes())
    return f"REFLEXARC_{digest.hexdigest()[:16].upper()}"


def _files() -> list[Path]:
    return sorted(file for tree in (_ISO_FILES, rootfs.FILES) for file in tree.rglob("*") if file.is_file())


def _volume_identifier(image: Path) -> str:
    try:
        with image.open("rb") as file:
            return file.read(_VOLUME_IDENTIFIER.stop)[_VOLUME_IDENTIFIER].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""


@contextmanager
def _full_disk(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"can't write the demo's guest ({error.strerror}); it needs 400 MB free and leave to write there",
            path=target.parent,
        ) from error


@contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """A folder on the same file system, so that the finished image is put in place in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as folder:
        yield Path(folder)


def _make(folder: Path, build: str, progress: Progress, password: str) -> Path:
    downloads, packages, iso = folder / "debs", merged_root(folder / "packages"), folder / "iso"
    downloads.mkdir()
    progress("resolving Debian packages", 0.05)
    names = [name for name in needed([*rootfs.PACKAGES, KERNEL], folder) if _wanted(name)]
    progress(f"downloading {len(names)} Debian packages", 0.15)
    files = fetch(names, downloads)
    progress("unpacking", 0.5)
    unpack(files, packages)
    progress("assembling the initramfs", 0.75)
    shutil.copytree(_ISO_FILES, iso)
    (iso / "boot/initrd").write_bytes(rootfs.initramfs(packages, password))
    shutil.copy(_kernel(packages), iso / "boot/vmlinuz")
    progress("writing the image", 0.9)
    return _write_image(iso, folder / "demo.iso", build)


def _wanted(name: str) -> bool:
    return name in rootfs.PACKAGES or name.startswith(("lib", "linux-image-", "login."))


def _kernel(packages: Path) -> Path:
    kernels = sorted((packages / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise ConfigError(f"the package {KERNEL} brought no kernel; `apt-get update` and try again")
    return kernels[-1]


def _write_image(iso: Path, image: Path, build: str) -> Path:
    run(
        [
            "grub-mkrescue", f"--directory={GRUB_PLATFORM}", "--fonts=", "--locales=", "--themes=",
            "-o", str(image), str(iso), "--", "-volid", build,
        ],
        doing="writing the bootable image",
    )  # fmt: skip
    return image
