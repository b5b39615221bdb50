"""Whether the virtual machine that a run goes on with is the one that it was left on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from reflexarc.drivers.qemu.launch import Vm
from reflexarc.errors import JournalError


def note(folder: Path, vm: Vm | None) -> None:
    """Write into a run's folder which virtual machine it goes on with; raises JournalError."""
    if vm is None:
        return
    try:
        _file(folder).write_text(_name(vm))
    except OSError as error:
        raise JournalError(f"can't write the run's folder: {error.strerror}", path=_file(folder)) from error


def replaced(folder: Path, vm: Vm | None) -> str | None:
    """Say, in words, that a run's virtual machine is another one than it was left on; None where it isn't known so."""
    if vm is None:
        return None
    noted = ""
    with suppress(OSError, UnicodeDecodeError):
        noted = _file(folder).read_text(encoding="utf-8")
    if noted in ("", _name(vm)):
        return None
    return (
        f"the virtual machine that the run was left on (process {noted.split()[0][:20]}) has ended, and this is "
        f"another one (process {vm.pid}): only what was written to its disks is still there. Nothing was sent to it; "
        "look at what it shows, and reply again"
    )


def _file(folder: Path) -> Path:
    return folder / "vm"


def _name(vm: Vm) -> str:
    """What tells one start of a virtual machine from another: numbers of processes are used again."""
    return f"{vm.pid} {(vm.folder / 'vm.json').stat().st_mtime_ns}"
