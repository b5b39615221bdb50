from __future__ import annotations

from pathlib import Path

import pytest

from reflexarc.drivers.qemu.command import accelerator, arguments, firmware_runs
from reflexarc.drivers.qemu.config import Disk, Network, QemuConfig
from reflexarc.drivers.qemu.firmware import Firmware, uefi
from reflexarc.drivers.qemu.keyboard import QCODES
from reflexarc.errors import ConfigError
from reflexarc.machine.keys import KEYS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("disk.qcow2", "second.img", "disk.vdi", "boot, once.iso", "b.iso"):
        (tmp_path / name).touch()
    return tmp_path


def parse(table: dict[str, object], folder: Path) -> QemuConfig:
    return QemuConfig.parse(table, machine="lab1", folder=folder)


def line(config: QemuConfig, firmware: Firmware | None = None) -> list[str]:
    return arguments(
        config, machine="a,b", folder=Path("/s"), sockets=Path("/run/x,y"), accel="tcg", firmware=firmware
    )


def plugged(config: QemuConfig) -> list[str]:
    words = line(config)
    return [words[i + 1] for i, word in enumerate(words) if word == "-device"][2:]


def test_an_empty_table_gives_the_defaults(folder: Path) -> None:
    config = parse({}, folder)
    assert config == QemuConfig()
    assert (config.memory_mib, config.cpus, config.accel, config.networks) == (512, 1, "auto", ())


def test_the_simple_forms_mean_one_of_each(folder: Path) -> None:
    table = {"disk": "disk.qcow2", "cdrom": str(folder / "boot, once.iso"), "network": "user"}
    config = parse(dict(table), folder)
    assert config.disks == (Disk(folder / "disk.qcow2"),)
    assert config.cdroms == (folder / "boot, once.iso",)
    assert config.networks == (Network(),)
    assert parse({"network": "none"}, folder).networks == ()


def test_lists_hold_paths_and_tables(folder: Path) -> None:
    config = parse(
        {
            "disks": ["disk.qcow2", {"path": "disk.vdi", "format": "raw", "interface": "sata"}, "second.img"],
            "cdroms": ["b.iso", "boot, once.iso"],
            "networks": ["user", {"model": "e1000"}, {"kind": "none"}],
            "arguments": ["-rtc", "base=utc"],
            "binary": "/bin/sh",
        },
        folder,
    )
    assert config.disks == (
        Disk(folder / "disk.qcow2"),
        Disk(folder / "disk.vdi", "raw", "sata"),
        Disk(folder / "second.img", "raw"),
    )
    assert [path.name for path in config.cdroms] == ["b.iso", "boot, once.iso"]
    assert config.networks == (Network(), Network("e1000"))
    assert line(config)[-2:] == ["-rtc", "base=utc"]


def test_attaching_needs_nothing_but_a_socket(folder: Path) -> None:
    config = parse({"attach": "qmp.sock", "serial": "/run/serial.sock"}, folder)
    assert (config.attach, config.serial) == (folder / "qmp.sock", Path("/run/serial.sock"))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"memory": 512}, ["memory", "no such setting", "did you mean 'memory_mib'"]),
        ({"colour": "red"}, ["colour", "known: firmware, memory_mib"]),
        ({"memory_mib": "512"}, ["memory_mib", "whole number", "'512'"]),
        ({"memory_mib": True}, ["memory_mib", "whole number", "True"]),
        ({"memory_mib": 15}, ["memory_mib", "from 16 to 1048576", "15"]),
        ({"cpus": 0}, ["cpus", "from 1 to 255", "0"]),
        ({"cpus": 1.0}, ["cpus", "whole number"]),
        ({"firmware": "uefy"}, ["firmware", "one of bios, uefi, uefi-secure", "did you mean 'uefi'"]),
        ({"firmware": "uefi-secure", "machine_type": "pc"}, ["machine_type", "secure boot needs", "q35"]),
        ({"accel": "hvf"}, ["accel", "one of auto, kvm, tcg", "'hvf'"]),
        ({"machine_type": 35}, ["machine_type", "in quotes", "35"]),
        ({"vga": "none"}, ["vga", "one of std, cirrus, qxl, virtio, vmware"]),
        ({"network": "bridge"}, ["network.kind", "one of none, user"]),
        ({"network": {"modl": "e1000"}}, ["network.modl", "did you mean 'model'"]),
        ({"network": {"model": "rtl8139"}}, ["network.model", "one of virtio, e1000"]),
        ({"networks": "user"}, ["networks", "must be a list"]),
        ({"networks": ["user"] * 9}, ["networks", "8 at most"]),
        ({"binary": ""}, ["binary", "in quotes"]),
        ({"arguments": "-rtc"}, ["arguments", "list of texts"]),
        ({"disk": "absent.qcow2"}, ["disk", "there is no file", "absent.qcow2"]),
        ({"disk": ["disk.qcow2"]}, ["disk", "in quotes or a table"]),
        ({"disk": "disk.vdi"}, ["disk", "must end in .qcow2, .raw, .img", "disk.vdi"]),
        ({"disk": "a\0b"}, ["disk", "in quotes"]),
        ({"disk": {"path": "disk.qcow2", "interface": "scsi"}}, ["disk.interface", "virtio, ide, sata, usb"]),
        ({"disk": {"interface": "ide"}}, ["disk.path", "in quotes"]),
        ({"disks": [{"path": "disk.vdi", "format": "vdi"}]}, ["disks[0].format", "qcow2, raw"]),
        ({"disk": "disk.qcow2", "disks": []}, ["disks", "disk is given, too"]),
        ({"disks": ["disk.qcow2"] * 17}, ["disks", "16 at most"]),
        ({"disks": [{"path": "disk.qcow2", "interface": "ide"}] * 4}, ["disks", "4 places", "CD drives"]),
        (
            {"machine_type": "q35", "disk": {"path": "disk.qcow2", "interface": "ide"}},
            ["disks", "no IDE controller", "sata"],
        ),
        ({"cdrom": "."}, ["cdrom", "there is no file"]),
        ({"attach": "qmp.sock", "cpus": 2}, ["cpus", "with attach", "remove it"]),
        ({"serial": "s.sock"}, ["serial", "goes with attach"]),
    ],
)
def test_a_mistake_says_where_what_and_what_to_do(
    table: dict[str, object], words: list[str], folder: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(table, folder)
    assert str(caught.value).startswith("machine 'lab1', qemu.")
    for word in words:
        assert word in str(caught.value)


def test_commas_in_paths_and_names_do_not_end_a_value(folder: Path) -> None:
    words = line(QemuConfig(binary="/bin/sh", cdroms=(folder / "boot, once.iso",)))
    assert "guest=a,,b" in words
    medium = f"media=cdrom,readonly=on,format=raw,file={folder}/boot,, once.iso"
    assert f"if=none,id=cdrom0-medium,{medium}" in words
    assert "socket,id=qmp2,path=/run/x,,y/qmp-2.sock,server=on,wait=off" in words
    assert words[words.index("-nic") + 1] == "none"


def test_every_drive_has_a_place_of_its_own_and_a_rank() -> None:
    image = Path("a.qcow2")
    config = QemuConfig(
        binary="/bin/sh",
        disks=tuple(Disk(image, interface=kind) for kind in ("ide", "ide", "sata", "virtio", "usb", "ide")),
        networks=(Network("e1000"),),
    )
    assert plugged(config) == [
        "ich9-ahci,id=sata",
        "ide-hd,id=disk0,bus=ide.0,unit=0,drive=disk0-image,bootindex=1",
        "ide-hd,id=disk1,bus=ide.0,unit=1,drive=disk1-image,bootindex=2",
        "ide-hd,id=disk2,bus=sata.0,drive=disk2-image,bootindex=3",
        "virtio-blk-pci,id=disk3,drive=disk3-image,bootindex=4",
        "usb-storage,id=disk4,bus=usb.0,drive=disk4-image,bootindex=5",
        "ide-hd,id=disk5,bus=ide.1,unit=1,drive=disk5-image,bootindex=6",
        "ide-cd,id=cdrom0,bus=ide.1,unit=0,drive=cdrom0-medium,bootindex=7",
        "e1000,id=nic0,netdev=network0,bootindex=8",
    ]


def test_a_disc_that_is_in_at_the_start_is_booted_before_the_disk() -> None:
    config = QemuConfig(
        binary="/bin/sh", machine_type="q35", disks=(Disk(Path("a"), interface="sata"),), cdroms=(Path("b"),)
    )
    assert plugged(config) == [
        "ide-cd,id=cdrom0,bus=ide.2,drive=cdrom0-medium,bootindex=1",
        "ide-hd,id=disk0,bus=ide.0,drive=disk0-image,bootindex=2",
    ]


def test_variables_are_copied_once_and_kept(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    shared = root / "usr/share/edk2/x64"
    shared.mkdir(parents=True)
    state.mkdir()
    (shared / "OVMF_CODE.4m.fd").write_bytes(b"code")
    (shared / "OVMF_VARS.4m.fd").write_bytes(b"fresh")
    found = uefi("uefi", machine="lab1", folder=state, root=root)
    assert (found.code, found.variables.read_bytes()) == (shared / "OVMF_CODE.4m.fd", b"fresh")
    found.variables.write_bytes(b"set up")
    assert uefi("uefi", machine="lab1", folder=state, root=root) == found
    assert found.variables.read_bytes() == b"set up"
    assert found.variables.parent == state
    with pytest.raises(ConfigError, match=r"'lab1', qemu\.firmware: no uefi-secure firmware .* install ovmf"):
        uefi("uefi-secure", machine="lab1", folder=state, root=root)


def test_secure_boot_guards_the_variables() -> None:
    firmware = Firmware(Path("/c,d"), Path("/v"))
    words = line(QemuConfig(binary="/bin/sh", firmware="uefi-secure", machine_type="q35"), firmware)
    assert "q35,smm=on" in words
    assert "if=pflash,unit=0,format=raw,readonly=on,file=/c,,d" in words
    assert words[words.index("-global") + 1] == "driver=cfi.pflash01,property=secure,value=on"


def test_the_accelerator_asked_for_is_taken() -> None:
    assert accelerator(QemuConfig(accel="tcg")) == "tcg"
    assert accelerator(QemuConfig(accel="kvm")) == "kvm"


def test_kvm_is_chosen_only_with_a_backend_that_boots_unmodified_guests() -> None:
    backend = any(Path("/sys/module", name).exists() for name in ("kvm_intel", "kvm_amd"))
    assert accelerator(QemuConfig()) in (("kvm", "tcg") if backend else ("tcg",))


@pytest.mark.guest
def test_a_firmware_that_runs_is_told_from_a_machine_that_is_stuck() -> None:
    assert firmware_runs("qemu-system-x86_64", "tcg")
    assert not firmware_runs("qemu-system-x86_64", "no such accelerator")


def test_every_key_has_a_code_of_its_own() -> None:
    assert set(QCODES) == KEYS
    assert len(set(QCODES.values())) == len(KEYS)
    assert [QCODES[key] for key in ("a", "enter", "grave", "menu", "kp_dot", "alt_r")] == [
        "a", "ret", "grave_accent", "compose", "kp_decimal", "alt_r",
    ]  # fmt: skip
