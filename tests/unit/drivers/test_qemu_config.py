from __future__ import annotations

from pathlib import Path

import pytest

from reflexarc.drivers.qemu.command import accelerator, arguments, firmware_runs
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.keyboard import QCODES
from reflexarc.errors import ConfigError
from reflexarc.machine.keys import KEYS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "disk.qcow2").touch()
    (tmp_path / "disk.vdi").touch()
    (tmp_path / "boot, once.iso").touch()
    return tmp_path


def parse(table: dict[str, object], folder: Path) -> QemuConfig:
    return QemuConfig.parse(table, machine="lab1", folder=folder)


def test_an_empty_table_gives_the_defaults(folder: Path) -> None:
    config = parse({}, folder)
    assert config == QemuConfig()
    assert (config.memory_mib, config.cpus, config.accel, config.network) == (512, 1, "auto", "none")


def test_paths_are_relative_to_the_folder(folder: Path) -> None:
    config = parse({"disk": "disk.qcow2", "cdrom": str(folder / "boot, once.iso")}, folder)
    assert config.disk == folder / "disk.qcow2"
    assert config.cdrom == folder / "boot, once.iso"


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
        ({"firmware": "uefi"}, ["firmware", "one of bios", "'uefi'"]),
        ({"accel": "hvf"}, ["accel", "one of auto, kvm, tcg", "'hvf'"]),
        ({"machine_type": 35}, ["machine_type", "in quotes", "35"]),
        ({"vga": "none"}, ["vga", "one of std"]),
        ({"network": "bridge"}, ["network", "one of none, user"]),
        ({"binary": ""}, ["binary", "in quotes"]),
        ({"disk": "absent.qcow2"}, ["disk", "there is no file", "absent.qcow2"]),
        ({"disk": ["disk.qcow2"]}, ["disk", "in quotes"]),
        ({"disk": "disk.vdi"}, ["disk", "must end in .qcow2, .raw, .img", "disk.vdi"]),
        ({"disk": "a\0b"}, ["disk", "in quotes"]),
        ({"cdrom": "."}, ["cdrom", "there is no file"]),
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
    config = QemuConfig(binary="/bin/sh", cdrom=folder / "boot, once.iso")
    line = arguments(config, machine="a,b", folder=folder, sockets=Path("/run/x,y"), accel="tcg")
    assert "guest=a,,b" in line
    assert f"file={folder}/boot,, once.iso,format=raw,if=ide,index=2,media=cdrom,readonly=on" in line
    assert "socket,id=qmp2,path=/run/x,,y/qmp-2.sock,server=on,wait=off" in line
    assert "order=dc,menu=off" in line
    assert line[line.index("-nic") + 1] == "none"


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
