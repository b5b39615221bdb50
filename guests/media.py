"""Boot media from what Debian packages bring: GRUB, ISOLINUX, systemd-boot, memtest86+, debian-installer."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

INSTALLER = Path("/usr/lib/debian-installer/images/12/amd64")
MEMTEST = Path("/boot/memtest86+x64.bin")
_ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
_SYSLINUX_MODULES = Path("/usr/lib/syslinux/modules/bios")
_SYSTEMD_BOOT = Path("/usr/lib/systemd/boot/efi/systemd-bootx64.efi")
_FIRMWARE = Path("/usr/share/OVMF")

_GRUB_ENTRIES = """
menuentry "Debian GNU/Linux" { linux /vmlinuz root=/dev/vda1 ro quiet ; initrd /initrd.img }
menuentry "Debian GNU/Linux (recovery mode)" { linux /vmlinuz single ; initrd /initrd.img }
submenu "Advanced options" { menuentry "Older kernel" { true } }
menuentry "System setup" { fwsetup }
"""


def run(*argv: str | Path) -> None:
    """Run a program of the host; its output is shown when it fails."""
    done = subprocess.run([str(part) for part in argv], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{argv[0]} failed: {done.stderr[-800:]}")


def grub_cdrom(folder: Path, settings: str) -> Path:
    """A CD-ROM whose GRUB, for BIOS and UEFI, has these settings above four entries."""
    tree = folder / "grub/boot/grub"
    tree.mkdir(parents=True)
    (tree / "grub.cfg").write_text(settings + _GRUB_ENTRIES)
    image = folder / "grub.iso"
    run("grub-mkrescue", "-o", image, folder / "grub")
    return image


def grub_without_its_files(folder: Path) -> Path:
    """A disk whose GRUB looks for its modules on a partition that is gone, and so ends in its rescue mode."""
    core, image = folder / "core.img", folder / "rescue.img"
    run(
        "grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos5)/boot/grub", "-o", core,
        "biosdisk", "part_msdos", "ext2",
    )  # fmt: skip
    boot = bytearray(Path("/usr/lib/grub/i386-pc/boot.img").read_bytes())
    image.write_bytes((bytes(boot) + core.read_bytes()).ljust(1 << 20, b"\0"))
    return image


def isolinux_cdrom(
    folder: Path, config: str, modules: Sequence[str], files: Mapping[str, Path], *, prefix: str = ""
) -> Path:
    """A CD-ROM with ISOLINUX, some of its modules and other files in the same folder.

    prefix: where the configuration says that its files lie; it is taken out of it and of theirs.
    """
    tree = folder / "isolinux"
    tree.mkdir()
    shutil.copy(_ISOLINUX, tree)
    for module in ("ldlinux.c32", "libcom32.c32", "libutil.c32", *modules):
        shutil.copy(_SYSLINUX_MODULES / module, tree)
    for name, source in files.items():
        shutil.copy(source, tree / name)
        if prefix and source.suffix == ".cfg":
            (tree / name).write_text(source.read_text().replace(prefix, ""))
    (tree / "isolinux.cfg").write_text(config.replace(prefix, "") if prefix else config)
    image = folder / "isolinux.iso"
    run(
        "xorriso", "-as", "mkisofs", "-o", image, "-b", "isolinux.bin", "-c", "boot.cat",
        "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", tree,
    )  # fmt: skip
    return image


def backdrop(path: Path) -> Path:
    """A picture to put text over: slopes of light, edges and blots."""
    light = Image.linear_gradient("L").resize((640, 480))
    dark = Image.radial_gradient("L").resize((640, 480)).point(lambda value: value // 3)
    picture = Image.merge("RGB", (dark, light.point(lambda value: value // 2), light.rotate(180)))
    draw = ImageDraw.Draw(picture)
    draw.polygon([(0, 300), (260, 480), (0, 480)], fill=(20, 60, 50))
    draw.polygon([(640, 0), (640, 260), (430, 0)], fill=(30, 20, 70))
    draw.ellipse((20, 15, 90, 60), outline=(190, 200, 200), width=3)
    picture.save(path)
    return path


def systemd_boot_disk(folder: Path) -> Path:
    """A disk with an EFI system partition's files: systemd-boot and two entries."""
    tree = folder / "esp"
    (tree / "EFI/BOOT").mkdir(parents=True)
    (tree / "loader/entries").mkdir(parents=True)
    shutil.copy(_SYSTEMD_BOOT, tree / "EFI/BOOT/BOOTX64.EFI")
    (tree / "vmlinuz").write_bytes(b"MZ")
    (tree / "loader/loader.conf").write_text("timeout menu-force\neditor yes\n")
    for name in ("12", "12-rescue"):
        (tree / f"loader/entries/debian-{name}.conf").write_text(
            f"title Debian GNU/Linux {name.replace('-', ' ')}\nlinux /vmlinuz\noptions root=/dev/vda2 rw\n"
        )
    return fat_disk(folder / "esp.img", tree)


def fat_disk(image: Path, tree: Path) -> Path:
    """A FAT file system without a partition table, with the files of a tree in it."""
    image.write_bytes(bytes(64 << 20))
    run("mformat", "-i", image, "-F", "::")
    run("mcopy", "-i", image, "-s", *sorted(tree.iterdir()), "::")
    return image


def uefi(folder: Path) -> list[str]:
    """Options of a machine with the UEFI firmware of the package ovmf and fresh variables."""
    variables = folder / "variables.fd"
    shutil.copy(_FIRMWARE / "OVMF_VARS_4M.fd", variables)
    code = _FIRMWARE / "OVMF_CODE_4M.fd"
    return [
        "-machine", "q35", "-m", "512",
        "-drive", f"if=pflash,format=raw,readonly=on,file={code}",
        "-drive", f"if=pflash,format=raw,file={variables}",
    ]  # fmt: skip
