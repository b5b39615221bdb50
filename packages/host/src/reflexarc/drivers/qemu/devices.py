"""Drives, network cards and the pointer on QEMU's command line."""

from __future__ import annotations

from collections.abc import Iterator

from reflexarc.drivers.qemu.config import NIC_MODELS, QemuConfig
from reflexarc.drivers.qemu.option import escaped

_DISK_DEVICES = {"virtio": "virtio-blk-pci", "ide": "ide-hd", "sata": "ide-hd", "usb": "usb-storage"}
# Places of the built-in controller, those for CD drives first: the third is where QEMU's own -cdrom puts one.
_PLACES = {
    "pc": ("ide.1,unit=0", "ide.1,unit=1", "ide.0,unit=1", "ide.0,unit=0"),
    "q35": ("ide.2", "ide.3", "ide.4", "ide.5", "ide.1", "ide.0"),
}


def devices(config: QemuConfig) -> list[str]:
    """Return the arguments for everything that is plugged in, in the order in which it boots.

    The order is that of `bootindex`, from 1 on, so that 0 is free for what is to come first for once.
    """
    drives = [list(_cdroms(config)), list(_disks(config))]
    if not config.cdroms:
        drives.reverse()
    bootable = [*(device for kind in drives for device in kind), *_networks(config)]
    return [
        *("-device", "qemu-xhci,id=usb"),
        *("-device", "usb-tablet,id=tablet,bus=usb.0"),
        *_controllers(config),
        *(
            part
            for number, (backend, device) in enumerate(bootable, 1)
            for part in (*backend, "-device", f"{device},bootindex={number}")
        ),
        *(() if config.networks else ("-nic", "none")),
    ]


_Plugged = tuple[tuple[str, ...], str]


def _controllers(config: QemuConfig) -> tuple[str, ...]:
    if config.machine_type == "pc" and any(disk.interface == "sata" for disk in config.disks):
        return ("-device", "ich9-ahci,id=sata")
    return ()


def _cdroms(config: QemuConfig) -> Iterator[_Plugged]:
    for number, place in zip(range(max(1, len(config.cdroms))), _PLACES[config.machine_type], strict=False):
        medium = f",format=raw,file={escaped(config.cdroms[number])}" if config.cdroms else ""
        drive = f"if=none,id=cdrom{number}-medium,media=cdrom,readonly=on{medium}"
        yield ("-drive", drive), f"ide-cd,id=cdrom{number},bus={place},drive=cdrom{number}-medium"


def _disks(config: QemuConfig) -> Iterator[_Plugged]:
    built_in = iter(reversed(_PLACES[config.machine_type]))
    ports = iter(range(6))
    for number, disk in enumerate(config.disks):
        place = ""
        if disk.interface == "usb":
            place = ",bus=usb.0"
        elif disk.interface == "sata" and config.machine_type == "pc":
            place = f",bus=sata.{next(ports)}"
        elif disk.interface != "virtio":
            place = f",bus={next(built_in)}"
        image = f"if=none,id=disk{number}-image,format={disk.format},file={escaped(disk.path)}"
        device = f"{_DISK_DEVICES[disk.interface]},id=disk{number}{place},drive=disk{number}-image"
        yield ("-drive", image), device


def _networks(config: QemuConfig) -> Iterator[_Plugged]:
    for number, network in enumerate(config.networks):
        netdev = ("-netdev", f"user,id=network{number}")
        yield netdev, f"{NIC_MODELS[network.model]},id=nic{number},netdev=network{number}"
