"""A Debian system with a desktop, unpacked from packages without root: GRUB, systemd, Xorg, openbox, GTK 3.

    python -m guests.desktop.system FOLDER AGENT

It boots from a CD-ROM (GRUB, Debian's kernel, a small initramfs) and mounts its root, a squashfs on the first virtio
disk, with a writable layer over it: in memory, or on the second disk where there is one, with ext4. The account `lab`
is logged in on the first virtual console, where its session starts Xorg; root logs in by itself on the first serial
line. Passwords are `lab` and `root`.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from guests.desktop.session import APPS
from guests.linux import archive
from guests.media import run
from reflexarc.demo.debian import fetch, merged_root, needed, unpack

FILES = Path(__file__).parent / "system"
_PACKAGES = (
    "systemd-sysv", "udev", "dbus", "dbus-user-session", "libpam-systemd", "login", "passwd", "bash", "dash", "sed",
    "coreutils", "util-linux", "mount", "kmod", "procps", "grep", "gzip", "findutils", "base-files", "base-passwd",
    "libpam-runtime", "ncurses-base", "xserver-xorg-core", "xserver-xorg-input-libinput", "xinit", "openbox",
    "at-spi2-core", "python3", "python3-gi", "gir1.2-gtk-3.0", "xterm", "fonts-dejavu-core", "openssh-server",
    "iproute2", "busybox-static", "linux-image-amd64",
)  # fmt: skip
# What mounts the root; the rest of the modules is found there.
_EARLY = ("virtio_blk", "virtio_pci", "squashfs", "overlay", "crc32c_generic", "ext4")
# No desktop in a virtual machine needs them, and they are most of the bytes.
_LEFT_OUT = (
    "usr/share/icons/Adwaita/cursors", "usr/share/icons/Adwaita/scalable", "usr/lib/firmware", "usr/share/fonts/X11",
    *(f"usr/lib/modules/*/kernel/{name}" for name in (
        "sound", "net/bluetooth", "net/wireless", "net/mac80211", "fs/xfs", "fs/btrfs", "fs/ocfs2", "fs/gfs2",
        "drivers/net/wireless", "drivers/media", "drivers/gpu/drm/amd", "drivers/gpu/drm/i915",
        "drivers/gpu/drm/nouveau", "drivers/gpu/drm/radeon", "drivers/infiniband", "drivers/staging", "drivers/scsi",
        "drivers/iio", "drivers/isdn", "drivers/bluetooth",
    )),
)  # fmt: skip
_ACCOUNTS = {"lab": 1000, "messagebus": 901, "systemd-network": 902, "systemd-resolve": 903, "sshd": 904}
_GROUPS = ("kvm", "render", "input", "sgx", "_ssh")
_LINKS = {
    "etc/systemd/system/default.target": "/usr/lib/systemd/system/multi-user.target",
    "etc/systemd/system/getty.target.wants/getty@tty1.service": "/usr/lib/systemd/system/getty@.service",
    "etc/systemd/system/getty.target.wants/serial-getty@ttyS0.service": "/usr/lib/systemd/system/serial-getty@.service",
    **{
        f"etc/systemd/system/multi-user.target.wants/{name}.service": f"/usr/lib/systemd/system/{name}.service"
        for name in ("systemd-networkd", "ssh")
    },
    "etc/systemd/user/default.target.wants/dbus.socket": "/usr/lib/systemd/user/dbus.socket",
    "etc/systemd/user/sockets.target.wants/dbus.socket": "/usr/lib/systemd/user/dbus.socket",
    "usr/bin/x-terminal-emulator": "xterm",
}


@dataclass(frozen=True)
class DesktopImage:
    """The two images of the system: `cdrom` starts it, `disk` holds its root.

    token and certificate: what its agent wants, and shows as `lab`, over TCP. key: the private half of the SSH key
    that its root takes; host_key: what its SSH server shows.
    """

    folder: Path

    @property
    def cdrom(self) -> Path:
        return self.folder / "desktop.iso"

    @property
    def disk(self) -> Path:
        return self.folder / "desktop.squashfs"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def host_key(self) -> Path:
        return self.folder / "host_key.pub"


def build(folder: Path, agent: Path) -> DesktopImage:
    """Build the system in a folder, with the agent's archive and secrets of its own."""
    image = DesktopImage(folder)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as work:
        packages, root = Path(work, "packages"), merged_root(Path(work, "root"))
        packages.mkdir()
        unpack(fetch(needed(_PACKAGES, packages), packages), root)
        kernel = next((root / "boot").glob("vmlinuz-*"))
        release = kernel.name.removeprefix("vmlinuz-")
        _leave_out(root)
        run("depmod", "-b", root, release)
        _write_cdrom(Path(work), root, kernel, image.cdrom)
        _configure(root)
        _accounts(root)
        shutil.copy(agent, root / "usr/local/lib/reflexarc-agent.pyz")
        _secrets(image, root)
        _write_disk(root, image.disk)
    return image


def _secrets(image: DesktopImage, root: Path) -> None:
    """Make the agent's token and certificate, and root's SSH key; the account `lab` owns its own at boot."""
    image.key.unlink(missing_ok=True)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", image.key)
    (root / "root/.ssh").mkdir(mode=0o700)
    shutil.copy(image.key.with_suffix(".pub"), root / "root/.ssh/authorized_keys")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root / "etc/ssh/ssh_host_ed25519_key")
    shutil.copy(root / "etc/ssh/ssh_host_ed25519_key.pub", image.host_key)
    folder = root / "etc/reflexarc-agent"
    folder.mkdir()
    image.token.write_text(secrets.token_hex(32))
    image.token.chmod(0o600)
    shutil.copy(image.token, folder)
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
        "-subj", "/CN=lab", "-addext", "subjectAltName=DNS:lab",
        "-keyout", folder / "key.pem", "-out", folder / "certificate.pem",
    )  # fmt: skip
    shutil.copy(folder / "certificate.pem", image.certificate)


def _leave_out(root: Path) -> None:
    for pattern in _LEFT_OUT:
        for path in root.glob(pattern):
            shutil.rmtree(path)


def _configure(root: Path) -> None:
    """Do what the packages' scripts would have done, and what makes it this system."""
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    (root / "usr/local/lib").mkdir(parents=True, exist_ok=True)
    for source in APPS.glob("*.py"):
        shutil.copy(source, root / "usr/local/lib" / source.name)
    for name, target in _LINKS.items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    (root / "usr/local/bin/session").chmod(0o755)
    for stack in ("account", "auth", "password", "session", "session-noninteractive"):
        lines = [f"{stack.split('-')[0]} required pam_unix.so"]
        if stack == "session":
            # Root has no session: its user manager would take seconds.
            lines.append("session [success=1 default=ignore] pam_succeed_if.so quiet uid = 0")
            lines.append("session optional pam_systemd.so")
        (root / f"etc/pam.d/common-{stack}").write_text("\n".join(lines) + "\n")
    for name in ("profile", "motd"):
        shutil.copy(root / "usr/share/base-files" / name, root / "etc" / name)
    shutil.rmtree(root / "var/run", ignore_errors=True)
    (root / "var/run").symlink_to("/run")
    for name in ("proc", "sys", "dev", "run", "tmp", "mnt"):
        (root / name).mkdir(exist_ok=True)
    run("ldconfig", "-r", root)
    # The accessibility bus does not start without schemas.
    run(next(root.glob("usr/lib/*/glib-2.0/glib-compile-schemas")), root / "usr/share/glib-2.0/schemas")


def _accounts(root: Path) -> None:
    for name in ("passwd", "group"):
        master = (root / f"usr/share/base-passwd/{name}.master").read_text()
        (root / "etc" / name).write_text(master.replace("root:*:0:0:", "root:x:0:0:"))
    with (root / "etc/passwd").open("a") as passwd, (root / "etc/group").open("a") as group:
        for name, number in _ACCOUNTS.items():
            home, shell = (
                ("/home/lab", "/bin/bash") if name == "lab" else ("/nonexistent", "/usr/sbin/nologin")
            )
            passwd.write(f"{name}:x:{number}:{number}::{home}:{shell}\n")
            group.write(f"{name}:x:{number}:\n")
        group.write("".join(f"{name}:x:{910 + at}:\n" for at, name in enumerate(_GROUPS)))
    shadow = "".join(f"{name}:{_hash(name)}:20000:0:99999:7:::\n" for name in ("root", "lab"))
    (root / "etc/shadow").write_text(shadow)


def _hash(password: str) -> str:
    made = subprocess.run(["openssl", "passwd", "-6", password], capture_output=True, text=True, check=True)
    return made.stdout.strip()


def _write_cdrom(work: Path, root: Path, kernel: Path, image: Path) -> None:
    tree, early = work / "cdrom", work / "early"
    (tree / "boot/grub").mkdir(parents=True)
    for name in ("bin", "dev", "proc", "sys", "new", "layer", "modules"):
        (early / name).mkdir(parents=True)
    shutil.copy(root / "bin/busybox", early / "bin/busybox")
    shutil.copy(Path(__file__).parent / "init", early / "init")
    (early / "init").chmod(0o755)
    modules = list(_in_order(root / "usr/lib/modules" / kernel.name.removeprefix("vmlinuz-")))
    for module in modules:
        shutil.copy(module, early / "modules")
    (early / "modules/order").write_text("".join(f"{module.name}\n" for module in modules))
    archive(early, tree / "boot/initrd")
    shutil.copy(kernel, tree / "boot/vmlinuz")
    shutil.copy(Path(__file__).parent / "grub.cfg", tree / "boot/grub")
    run("grub-mkrescue", "-o", image, tree, "--", "-volid", "DESKTOP")


def _in_order(folder: Path) -> Iterable[Path]:
    """The early modules with those that they need, each after what it needs."""
    listed = (line.split(":") for line in (folder / "modules.dep").read_text().splitlines())
    needs = {name: needed.split() for name, needed in listed}
    found: dict[str, None] = {}
    for module in _EARLY:
        path = next((name for name in needs if Path(name).name.split(".")[0] == module), None)
        if path is not None:
            found.update(dict.fromkeys((*reversed(needs[path]), path)))
    return (folder / name for name in found)


def _write_disk(root: Path, image: Path) -> None:
    image.unlink(missing_ok=True)
    run("mksquashfs", root, image, "-quiet", "-no-progress", "-all-root", "-comp", "lz4")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the desktop system.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("agent", type=Path, help="the agent's archive")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    image = build(chosen.folder, chosen.agent)
    print(image.cdrom, image.disk)


if __name__ == "__main__":
    main()
