"""The vsock device among a machine's devices: which of the two kinds it gets, and how it is plugged in.

Source: QEMU, docs/pcie.txt (hot plugging); Linux, include/uapi/linux/vhost.h.
"""

from __future__ import annotations

import fcntl
import os
import platform
import secrets
import struct
from collections.abc import Mapping
from pathlib import Path

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.option import escaped
from reflexarc.drivers.qemu.vsock.packet import GUEST_CID
from reflexarc.drivers.qemu.vsock.process import FRONT_END_SOCKET
from reflexarc.errors import ConfigError

# The names of the device and of its line to the process, and of the port that a q35 needs to unplug it.
DEVICE, CHARDEV, PORT = "vsock", "vsock", "vsock-port"
# The guest's number where the device is ours: it is alone behind it.
USER_SPACE = GUEST_CID
KERNEL_DEVICE = Path("/dev/vhost-vsock")
_SET_GUEST_CID = 0x4008AF60
_CHASSIS = 254
_TRIES = 16


def choose(kernel_device: Path = KERNEL_DEVICE) -> int:
    """The number for a guest: one that is free where the host's kernel has the device, else `USER_SPACE`.

    Raises ConfigError where this host can offer no vsock at all.
    """
    if not os.access(kernel_device, os.R_OK | os.W_OK):
        if platform.machine() != "x86_64":
            raise ConfigError(
                f"vsock needs {kernel_device} on this host: load the kernel's module vhost_vsock, and be allowed to "
                "open that file"
            )
        return USER_SPACE
    for _ in range(_TRIES):
        cid = USER_SPACE + 1 + secrets.randbelow(1 << 30)
        if _is_free(cid, kernel_device):
            return cid
    raise ConfigError(
        f"{kernel_device} takes no number for a guest; is the kernel's module vhost_vsock whole?"
    )


def _is_free(cid: int, kernel_device: Path) -> bool:
    descriptor = os.open(kernel_device, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _SET_GUEST_CID, struct.pack("<Q", cid))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def arguments(config: QemuConfig, cid: int, sockets: Path) -> list[str]:
    """The arguments for the device; its guest's memory is shared with our process where that serves it."""
    port = ["-device", f"pcie-root-port,id={PORT},chassis={_CHASSIS}"] if config.machine_type == "q35" else []
    bus = f",bus={PORT}" if port else ""
    if cid != USER_SPACE:
        return [*port, "-device", f"vhost-vsock-pci,id={DEVICE},guest-cid={cid}{bus}"]
    return [
        *("-object", f"memory-backend-memfd,id=memory,size={config.memory_mib}M,share=on"),
        *("-machine", "memory-backend=memory"),
        *("-chardev", f"socket,id={CHARDEV},path={escaped(sockets / FRONT_END_SOCKET)}"),
        *port,
        *("-device", f"vhost-user-vsock-pci,id={DEVICE},chardev={CHARDEV}{bus}"),
    ]


def device(arguments: tuple[str, ...]) -> Mapping[str, str]:
    """What QMP's device_add needs to plug our device in again."""
    found = {"driver": "vhost-user-vsock-pci", "id": DEVICE, "chardev": CHARDEV}
    return (
        {**found, "bus": PORT}
        if any(part.startswith(f"pcie-root-port,id={PORT}") for part in arguments)
        else found
    )


def chardev(sockets: Path) -> Mapping[str, object]:
    """What QMP's chardev-add needs to connect QEMU to our process."""
    address = {"type": "unix", "data": {"path": str(sockets / FRONT_END_SOCKET)}}
    return {"id": CHARDEV, "backend": {"type": "socket", "data": {"addr": address, "server": False}}}
