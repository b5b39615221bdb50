"""The `qemu` table of a machine's inventory entry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path

from reflexarc.errors import ConfigError

DISK_FORMATS: Mapping[str, str] = {".qcow2": "qcow2", ".raw": "raw", ".img": "raw"}

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "firmware": ("bios",),
    "accel": ("auto", "kvm", "tcg"),
    "machine_type": ("pc", "q35"),
    "vga": ("std",),
    "network": ("none", "user"),
}
_RANGES: Mapping[str, tuple[int, int]] = {"memory_mib": (16, 1_048_576), "cpus": (1, 255)}


@dataclass(frozen=True)
class QemuConfig:
    """What the virtual machine is made of; `binary` is a name on PATH or a path."""

    firmware: str = "bios"
    memory_mib: int = 512
    cpus: int = 1
    disk: Path | None = None
    cdrom: Path | None = None
    accel: str = "auto"
    machine_type: str = "pc"
    vga: str = "std"
    network: str = "none"
    binary: str = "qemu-system-x86_64"

    @classmethod
    def parse(cls, table: Mapping[str, object], *, machine: str, folder: Path) -> QemuConfig:
        """Check the table and return its values; paths are taken relative to `folder`.

        Raises ConfigError on the first mistake.
        """
        return _Table(table, machine, folder).config()


@dataclass(frozen=True)
class _Table:
    values: Mapping[str, object]
    machine: str
    folder: Path

    def config(self) -> QemuConfig:
        known = [field.name for field in fields(QemuConfig)]
        for key in self.values:
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise self._mistake(key, f"there is no such setting; {hint}")
        default = QemuConfig()
        return QemuConfig(
            firmware=self._choice("firmware", default.firmware),
            memory_mib=self._whole("memory_mib", default.memory_mib),
            cpus=self._whole("cpus", default.cpus),
            disk=self._disk(),
            cdrom=self._file("cdrom"),
            accel=self._choice("accel", default.accel),
            machine_type=self._choice("machine_type", default.machine_type),
            vga=self._choice("vga", default.vga),
            network=self._choice("network", default.network),
            binary=self._text("binary", default.binary),
        )

    def _mistake(self, key: object, problem: str) -> ConfigError:
        return ConfigError(f"machine {self.machine!r}, qemu.{key}: {problem}")

    def _text(self, key: str, default: str) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self._mistake(key, f"must be a text in quotes, not {value!r}")
        return value

    def _choice(self, key: str, default: str) -> str:
        value = self._text(key, default)
        if value not in _CHOICES[key]:
            raise self._mistake(key, f"must be one of {', '.join(_CHOICES[key])}, not {value!r}")
        return value

    def _whole(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        low, high = _RANGES[key]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._mistake(key, f"must be a whole number, not {value!r}")
        if not low <= value <= high:
            raise self._mistake(key, f"must be from {low} to {high}, not {value}")
        return value

    def _file(self, key: str) -> Path | None:
        if key not in self.values:
            return None
        path = self.folder / Path(self._text(key, "")).expanduser()
        if not path.is_file():
            raise self._mistake(key, f"there is no file {path}; create it or correct the path")
        if not os.access(path, os.R_OK):
            raise self._mistake(key, f"the file {path} can't be read; change its permissions")
        return path.absolute()

    def _disk(self) -> Path | None:
        path = self._file("disk")
        if path is not None and path.suffix not in DISK_FORMATS:
            raise self._mistake("disk", f"the name must end in {', '.join(DISK_FORMATS)}, not {path.name!r}")
        return path
