"""QEMU's command line, and what this host lets it use."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from functools import lru_cache
from pathlib import Path

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.devices import devices
from reflexarc.drivers.qemu.firmware import Firmware
from reflexarc.drivers.qemu.option import escaped
from reflexarc.drivers.qemu.vsock import plugging

MONITORS = 3
TRIAL_TIMEOUT = 5.0

_log = logging.getLogger("reflexarc.qemu")


def arguments(
    config: QemuConfig,
    *,
    machine: str,
    folder: Path,
    sockets: Path,
    accel: str,
    firmware: Firmware | None,
    cid: int | None = None,
) -> list[str]:
    """Return the arguments after the program's name: started with the power off, kept after a shutdown.

    cid: the guest's number at its vsock device, None for a machine without one.
    """
    secure = config.firmware == "uefi-secure"
    return [
        *("-name", f"guest={escaped(machine)}"),
        *("-S", "-no-shutdown", "-no-user-config", "-nodefaults"),
        *("-machine", config.machine_type + (",smm=on" if secure else ""), "-accel", accel, "-cpu", "max"),
        *("-m", f"{config.memory_mib}M", "-smp", str(config.cpus)),
        *("-vga", config.vga, "-display", display(config.binary)),
        *("-boot", "menu=off"),
        *("-pidfile", str(folder / "qemu.pid")),
        *(part for number in range(MONITORS) for part in _monitor(sockets, number)),
        *_serial(folder, sockets),
        *(_flash(firmware, secure=secure) if firmware else ()),
        *devices(config),
        *(plugging.arguments(config, cid, sockets) if cid is not None else ()),
        *config.arguments,
    ]


def accelerator(config: QemuConfig) -> str:
    """Return `kvm` or `tcg`; for `auto` KVM where it can run unmodified guests, and a firmware did run.

    A `kvm` module whose only backend is neither Intel's nor AMD's opens /dev/kvm and then can't boot them.
    """
    if config.accel != "auto":
        return config.accel
    if kvm_obstacle() is not None:
        return "tcg"
    if firmware_runs(config.binary, "kvm"):
        return "kvm"
    _log.warning("KVM is there, but no machine makes progress under it: machines run emulated, and slower")
    return "tcg"


def kvm_obstacle() -> str | None:
    """Say why KVM is out of the question on this host, None where it is worth a trial."""
    if not any(Path("/sys/module", name).exists() for name in ("kvm_intel", "kvm_amd")):
        return "neither kvm_intel nor kvm_amd is loaded"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "this user may not open /dev/kvm" if os.path.exists("/dev/kvm") else "there is no /dev/kvm"
    return None


@lru_cache(maxsize=16)
def firmware_runs(binary: str, accel: str) -> bool:
    """Tell whether a machine without disks comes so far that its firmware says a word on the debug port."""
    trial = [binary, "-accel", accel, "-m", "16", "-display", "none", "-nodefaults", "-no-user-config"]
    debug_port = ["-chardev", "stdio,id=word", "-device", "isa-debugcon,iobase=0x402,chardev=word"]
    with subprocess.Popen(
        [*trial, *debug_port],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        stuck = threading.Timer(TRIAL_TIMEOUT, process.kill)
        stuck.start()
        said = process.stdout.read(1) if process.stdout else b""
        stuck.cancel()
        process.kill()
    return bool(said)


def display(binary: str) -> str:
    """Return the `-display` option: the D-Bus display where this QEMU has it, else none."""
    return "dbus,p2p=yes" if "dbus" in _displays(binary, os.stat(binary).st_mtime_ns) else "none"


@lru_cache(maxsize=16)
def _displays(binary: str, mtime_ns: int) -> tuple[str, ...]:
    answer = subprocess.run(
        [binary, "-display", "help"], capture_output=True, text=True, timeout=10, check=False
    )
    return tuple(answer.stdout.split())


def _monitor(sockets: Path, number: int) -> tuple[str, ...]:
    path = escaped(sockets / f"qmp-{number}.sock")
    return (
        *("-chardev", f"socket,id=qmp{number},path={path},server=on,wait=off"),
        *("-mon", f"chardev=qmp{number},mode=control"),
    )


def _serial(folder: Path, sockets: Path) -> tuple[str, ...]:
    path, log = escaped(sockets / "serial.sock"), escaped(folder / "serial.log")
    return (
        *("-chardev", f"socket,id=serial0,path={path},server=on,wait=off,logfile={log},logappend=off"),
        *("-serial", "chardev:serial0"),
    )


def _flash(firmware: Firmware, *, secure: bool) -> tuple[str, ...]:
    protection = ("-global", "driver=cfi.pflash01,property=secure,value=on") if secure else ()
    return (
        *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={escaped(firmware.code)}"),
        *("-drive", f"if=pflash,unit=1,format=raw,file={escaped(firmware.variables)}"),
        *protection,
    )
