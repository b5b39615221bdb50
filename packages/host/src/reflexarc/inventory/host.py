"""What of the host matters to every machine: programs, acceleration, disk space; nothing is started."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reflexarc.drivers.qemu.command import display, kvm_obstacle
from reflexarc.drivers.qemu.firmware import installed
from reflexarc.inventory.keeping import state_findings
from reflexarc.inventory.places import places
from reflexarc.runs.preflight import Finding, Severity

QEMU = "qemu-system-x86_64"


@dataclass(frozen=True)
class Package:
    """What a program or file comes in, by package manager; empty where that has none."""

    apt: str
    dnf: str
    pacman: str
    brew: str = ""

    @property
    def fix(self) -> str:
        """The ways to install it."""
        ways = [("apt-get install", self.apt), ("dnf install", self.dnf), ("pacman -S", self.pacman)]
        ways.append(("brew install", self.brew))
        return "; ".join(f"{way} {package}" for way, package in ways if package)


_QEMU = Package("qemu-system-x86", "qemu-system-x86", "qemu-system-x86", "qemu")
_DISPLAY = Package("qemu-system-modules-opengl (Debian 13 and later)", "qemu-ui-dbus", "qemu-ui-dbus")
_FIRMWARE = Package("ovmf", "edk2-ovmf", "edk2-ovmf", "qemu")
# What only `reflexarc demo` needs.
_DEMO = {
    "xorriso": Package("xorriso", "xorriso", "libisoburn", "xorriso"),
    "grub-mkrescue": Package("grub-common grub-pc-bin", "grub2-tools-extra grub2-pc-modules", "grub"),
    "mformat": Package("mtools", "mtools", "mtools", "mtools"),
    "cpio": Package("cpio", "cpio", "cpio", "cpio"),
}


def host_findings(*, needs_qemu: bool) -> list[Finding]:
    """Look at the host; needs_qemu: whether a machine of the inventory is launched here."""
    return [
        program(QEMU, required=needs_qemu),
        *screens(QEMU),
        firmware("uefi", required=False),
        acceleration(),
        *(_tool(name, package) for name, package in _DEMO.items()),
        *state_findings(places()),
    ]


def program(name: str, *, required: bool) -> Finding:
    """Whether a QEMU is there."""
    found = shutil.which(name)
    if found is not None:
        return Finding("qemu", Severity.OK, found)
    severity = Severity.CRITICAL if required else Severity.WARNING
    return Finding("qemu", severity, f"there is no program {name}", _QEMU.fix)


def screens(name: str) -> Iterator[Finding]:
    """How the screens of machines that this QEMU runs are seen; nothing where there is no such program."""
    found = shutil.which(name)
    if found is None:
        return
    if display(found) != "none":
        yield Finding("display", Severity.OK, "QEMU has the D-Bus display: screens are pushed")
    else:
        detail = "this QEMU has no D-Bus display: screens are polled, which takes longer"
        yield Finding("display", Severity.WARNING, detail, _DISPLAY.fix)


def firmware(kind: str, *, required: bool) -> Finding:
    """Whether the firmware of UEFI machines is there."""
    found = installed(kind)
    if found is not None:
        return Finding("firmware", Severity.OK, f"{kind}: {found[0]}")
    severity = Severity.CRITICAL if required else Severity.INFO
    return Finding("firmware", severity, f"no {kind} firmware is installed", _FIRMWARE.fix)


def acceleration(accel: str = "auto") -> Finding:
    """Whether machines run under KVM or emulated, and why. accel: what a machine's entry says."""
    obstacle = kvm_obstacle()
    if accel == "tcg":
        return Finding("acceleration", Severity.INFO, "emulated (TCG): its entry in the inventory says so")
    if obstacle is None:
        detail = "KVM is there; at its first start a machine tries whether its firmware runs under it"
        return Finding("acceleration", Severity.OK, detail)
    if accel == "kvm":
        fix = f'{_kvm_fix()}; or take accel = "kvm" out of its entry'
        return Finding("acceleration", Severity.CRITICAL, f"KVM is asked for, but {obstacle}", fix)
    return Finding("acceleration", Severity.INFO, f"emulated (TCG), which is slower: {obstacle}", _kvm_fix())


def _kvm_fix() -> str:
    on_linux = (
        "switch virtualisation on in the host's firmware, load kvm_intel or kvm_amd, join the group kvm"
    )
    return on_linux if sys.platform == "linux" else "KVM is Linux's alone"


def _tool(name: str, package: Package) -> Finding:
    if shutil.which(name) is not None:
        return Finding(name, Severity.OK, "present")
    return Finding(name, Severity.INFO, "missing; only `reflexarc demo` needs it", package.fix)


def of_launched(binary: str, kind: str, accel: str) -> Sequence[Finding]:
    """What must be there for a machine that is launched here."""
    found = [program(binary, required=True), acceleration(accel)]
    return found if kind == "bios" else [*found, firmware(kind, required=True)]
