"""UEFI firmware: the files that distributions install, and a machine's own copy of the variables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reflexarc.errors import ConfigError

# Code and the variables that go with it, of one size: Debian, Fedora, Arch, openSUSE, QEMU's own.
_FILES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "uefi": (
        ("usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.fd"),
        ("usr/share/OVMF/OVMF_CODE.fd", "usr/share/OVMF/OVMF_VARS.fd"),
        ("usr/share/edk2/ovmf/OVMF_CODE.fd", "usr/share/edk2/ovmf/OVMF_VARS.fd"),
        ("usr/share/edk2/x64/OVMF_CODE.4m.fd", "usr/share/edk2/x64/OVMF_VARS.4m.fd"),
        ("usr/share/edk2/x64/OVMF_CODE.fd", "usr/share/edk2/x64/OVMF_VARS.fd"),
        ("usr/share/qemu/ovmf-x86_64-4m-code.bin", "usr/share/qemu/ovmf-x86_64-4m-vars.bin"),
        ("usr/share/qemu/edk2-x86_64-code.fd", "usr/share/qemu/edk2-i386-vars.fd"),
        ("opt/homebrew/share/qemu/edk2-x86_64-code.fd", "opt/homebrew/share/qemu/edk2-i386-vars.fd"),
    ),
    # Only with variables in which Microsoft's keys are enrolled: without keys it enforces nothing.
    "uefi-secure": (
        ("usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "usr/share/OVMF/OVMF_VARS_4M.ms.fd"),
        ("usr/share/OVMF/OVMF_CODE.secboot.fd", "usr/share/OVMF/OVMF_VARS.ms.fd"),
        ("usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", "usr/share/edk2/ovmf/OVMF_VARS.secboot.fd"),
        ("usr/share/qemu/ovmf-x86_64-smm-ms-code.bin", "usr/share/qemu/ovmf-x86_64-smm-ms-vars.bin"),
    ),
}


@dataclass(frozen=True)
class Firmware:
    """`code` is the distribution's and only read; `variables` is the machine's own, written by its firmware."""

    code: Path
    variables: Path


def uefi(kind: str, *, machine: str, folder: Path, root: Path = Path("/")) -> Firmware:
    """The firmware of a machine, with its variables in `folder`: made there once, then kept.

    kind: `uefi` or `uefi-secure`. Raises ConfigError where no firmware of that kind is installed below `root`.
    """
    found = installed(kind, root)
    if found is not None:
        code, template = found
        variables = folder / f"{kind}-vars.fd"
        if not variables.exists():
            _copy(template, variables)
        return Firmware(code, variables)
    raise ConfigError(
        f"machine {machine!r}, qemu.firmware: no {kind} firmware is installed; "
        "install it (Debian: apt-get install ovmf; Fedora, Arch: edk2-ovmf)"
    )


def installed(kind: str, root: Path = Path("/")) -> tuple[Path, Path] | None:
    """The code and the template of its variables, None where no firmware of that kind is installed."""
    for code, template in _FILES[kind]:
        if (root / code).is_file() and (root / template).is_file():
            return root / code, root / template
    return None


def _copy(template: Path, target: Path) -> None:
    """Copy such that a half-written file is never taken for a whole one."""
    draft = target.with_suffix(".new")
    shutil.copyfile(template, draft)
    draft.chmod(0o600)
    os.replace(draft, target)
