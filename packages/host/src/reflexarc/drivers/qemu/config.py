"""The `qemu` table of a machine's inventory entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reflexarc.machine.settings import Settings

DISK_FORMATS: Mapping[str, str] = {".qcow2": "qcow2", ".raw": "raw", ".img": "raw"}
INTERFACES = ("virtio", "ide", "sata", "usb")
NIC_MODELS: Mapping[str, str] = {"virtio": "virtio-net-pci", "e1000": "e1000"}
VGA_KINDS = ("std", "cirrus", "qxl", "virtio", "vmware")
MAX_DISKS = 16
MAX_NETWORKS = 8
# Places of the built-in controller: PIIX has two channels of two, ICH9 six ports.
IDE_PLACES: Mapping[str, int] = {"pc": 4, "q35": 6}

LAUNCH_KEYS = (
    "firmware", "memory_mib", "cpus", "disk", "disks", "cdrom", "cdroms", "accel", "machine_type", "vga",
    "network", "networks", "vsock", "arguments", "binary",
)  # fmt: skip
ATTACH_KEYS = ("attach", "serial")


@dataclass(frozen=True)
class Disk:
    """A disk image and how the machine sees it."""

    path: Path
    format: str = "qcow2"
    interface: str = "virtio"


@dataclass(frozen=True)
class Network:
    """A network card on QEMU's user network."""

    model: str = "virtio"


@dataclass(frozen=True)
class QemuConfig:
    """What the virtual machine is made of; `binary` is a name on PATH or a path.

    cdroms: the images in the CD drives at the start; there is always one drive.
    vsock: a vsock device, by which an agent in the guest is reached without any network.
    attach: the QMP socket of a machine that runs already; then only `serial`, its console's socket, counts.
    """

    firmware: str = "bios"
    memory_mib: int = 512
    cpus: int = 1
    disks: tuple[Disk, ...] = ()
    cdroms: tuple[Path, ...] = ()
    accel: str = "auto"
    machine_type: str = "pc"
    vga: str = "std"
    networks: tuple[Network, ...] = ()
    vsock: bool = False
    arguments: tuple[str, ...] = ()
    binary: str = "qemu-system-x86_64"
    attach: Path | None = None
    serial: Path | None = None

    @classmethod
    def parse(cls, table: Mapping[str, object], *, machine: str, folder: Path) -> QemuConfig:
        """Check the table and return its values; paths are taken relative to `folder`.

        Raises ConfigError on the first mistake.
        """
        settings = Settings(table, f"machine {machine!r}, qemu", folder)
        settings.only((*LAUNCH_KEYS, *ATTACH_KEYS))
        return _attached(settings) if "attach" in table else _launched(settings)


def _attached(settings: Settings) -> QemuConfig:
    for key in settings.values:
        if key not in ATTACH_KEYS:
            raise settings.mistake(
                key, "is for machines that are launched; with attach it has no effect: remove it"
            )
    serial = settings.path("serial") if "serial" in settings.values else None
    return QemuConfig(attach=settings.path("attach"), serial=serial)


def _launched(settings: Settings) -> QemuConfig:
    if "serial" in settings.values:
        raise settings.mistake(
            "serial", "goes with attach; a machine that is launched has a console by itself"
        )
    firmware = settings.choice("firmware", "bios", ("bios", "uefi", "uefi-secure"))
    machine_type = settings.choice(
        "machine_type", "q35" if firmware == "uefi-secure" else "pc", ("pc", "q35")
    )
    if firmware == "uefi-secure" and machine_type != "q35":
        raise settings.mistake("machine_type", "secure boot needs the machine type q35")
    config = QemuConfig(
        firmware=firmware,
        memory_mib=settings.whole("memory_mib", 512, 16, 1_048_576),
        cpus=settings.whole("cpus", 1, 1, 255),
        disks=_disks(settings),
        cdroms=tuple(_cdrom(entry) for entry, _ in settings.entries("cdrom", "cdroms", "path")),
        accel=settings.choice("accel", "auto", ("auto", "kvm", "tcg")),
        machine_type=machine_type,
        vga=settings.choice("vga", "std", VGA_KINDS),
        networks=_networks(settings),
        vsock=settings.flag("vsock"),
        arguments=settings.texts("arguments"),
        binary=settings.text("binary", "qemu-system-x86_64"),
    )
    _check_places(config, settings)
    return config


def _disks(settings: Settings) -> tuple[Disk, ...]:
    entries = settings.entries("disk", "disks", "path")
    if len(entries) > MAX_DISKS:
        raise settings.mistake("disks", f"there may be {MAX_DISKS} at most, not {len(entries)}")
    return tuple(_disk(entry, key, settings) for entry, key in entries)


def _disk(entry: Settings, key: str, settings: Settings) -> Disk:
    entry.only(("path", "format", "interface"))
    path = entry.file("path")
    if "format" not in entry.values and path.suffix not in DISK_FORMATS:
        raise settings.mistake(
            key, f"the name must end in {', '.join(DISK_FORMATS)} or format be given; {path.name!r} does not"
        )
    kind = entry.choice("format", DISK_FORMATS.get(path.suffix, ""), sorted(set(DISK_FORMATS.values())))
    return Disk(path, kind, entry.choice("interface", "virtio", INTERFACES))


def _cdrom(entry: Settings) -> Path:
    entry.only(("path",))
    return entry.file("path")


def _networks(settings: Settings) -> tuple[Network, ...]:
    networks = []
    for entry, _ in settings.entries("network", "networks", "kind"):
        entry.only(("kind", "model"))
        model = entry.choice("model", "virtio", tuple(NIC_MODELS))
        if entry.choice("kind", "user", ("none", "user")) == "user":
            networks.append(Network(model))
    if len(networks) > MAX_NETWORKS:
        raise settings.mistake("networks", f"there may be {MAX_NETWORKS} at most, not {len(networks)}")
    return tuple(networks)


def _check_places(config: QemuConfig, settings: Settings) -> None:
    """Refuse more drives than the controllers have places for; a CD drive takes one of the built-in's."""
    used = [disk.interface for disk in config.disks]
    if config.machine_type == "q35" and "ide" in used:
        raise settings.mistake(
            "disks", "q35 has no IDE controller; use the interface sata, or machine_type pc"
        )
    places = IDE_PLACES[config.machine_type]
    built_in = used.count("ide" if config.machine_type == "pc" else "sata") + max(1, len(config.cdroms))
    if built_in > places or used.count("sata") > 6:
        raise settings.mistake(
            "disks",
            f"{config.machine_type} has {places} places for its IDE or SATA drives, CD drives included",
        )
