"""The setting `vsock`, and what becomes of it on QEMU's command line."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from reflexarc.drivers.qemu.command import arguments
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.launch import Vm
from reflexarc.drivers.qemu.vsock import plugging
from reflexarc.errors import ConfigError

ANY = "/bin/true"


def words(config: QemuConfig, cid: int | None) -> list[str]:
    return arguments(
        config, machine="a", folder=Path("/s"), sockets=Path("/run/x,y"), accel="tcg", firmware=None, cid=cid
    )


def plugged(config: QemuConfig, cid: int | None) -> list[str]:
    found = words(config, cid)
    return [found[at + 1] for at, word in enumerate(found) if word == "-device" and "vsock" in found[at + 1]]


def parse(table: dict[str, object]) -> QemuConfig:
    return QemuConfig.parse(table, machine="lab1", folder=Path("/"))


def test_a_machine_has_a_vsock_device_where_it_is_asked_for() -> None:
    assert not parse({}).vsock
    assert parse({"vsock": True}).vsock
    for wrong in ("true", 1, None):
        with pytest.raises(ConfigError, match=r"lab1.*vsock: must be true or false"):
            parse({"vsock": wrong})
    with pytest.raises(ConfigError, match="with attach it has no effect"):
        parse({"vsock": True, "attach": "qmp.sock"})


def test_without_one_nothing_of_it_is_on_the_command_line() -> None:
    assert plugged(QemuConfig(binary=ANY), None) == []
    assert not any("memory-backend" in word for word in words(QemuConfig(binary=ANY), None))


def test_ours_shares_the_memory_and_can_be_unplugged() -> None:
    config = QemuConfig(memory_mib=300, binary=ANY)
    found = words(config, plugging.USER_SPACE)
    assert "memory-backend-memfd,id=memory,size=300M,share=on" in found
    assert "memory-backend=memory" in found
    assert "socket,id=vsock,path=/run/x,,y/vsock-qemu.sock" in found
    assert plugged(config, plugging.USER_SPACE) == ["vhost-user-vsock-pci,id=vsock,chardev=vsock"]
    assert plugged(QemuConfig(machine_type="q35", binary=ANY), plugging.USER_SPACE) == [
        "pcie-root-port,id=vsock-port,chassis=254",
        "vhost-user-vsock-pci,id=vsock,chardev=vsock,bus=vsock-port",
    ]


def test_it_is_plugged_in_again_where_it_was() -> None:
    for machine_type, bus in (("pc", {}), ("q35", {"bus": "vsock-port"})):
        found = words(QemuConfig(machine_type=machine_type, binary=ANY), plugging.USER_SPACE)
        assert plugging.device(tuple(found)) == {
            "driver": "vhost-user-vsock-pci",
            "id": "vsock",
            "chardev": "vsock",
            **bus,
        }


def test_the_kernels_takes_a_number_and_no_memory_of_its_own() -> None:
    assert plugged(QemuConfig(machine_type="q35", binary=ANY), 77) == [
        "pcie-root-port,id=vsock-port,chassis=254",
        "vhost-vsock-pci,id=vsock,guest-cid=77,bus=vsock-port",
    ]
    assert not any("memory-backend" in word for word in words(QemuConfig(binary=ANY), 77))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="ours is for x86")
def test_the_kernels_device_is_used_where_it_is_there(tmp_path: Path) -> None:
    assert plugging.choose(tmp_path / "absent") == plugging.USER_SPACE
    other = tmp_path / "vhost-vsock"
    other.touch()
    with pytest.raises(ConfigError, match=r"vhost-vsock takes no number"):
        plugging.choose(other)


@pytest.mark.parametrize(("cid", "where"), [(None, None), (77, 77), (3, Path("/run/x/vsock.sock"))])
def test_a_running_machine_tells_where_its_guest_is_reached(
    cid: int | None, where: Path | int | None
) -> None:
    assert Vm("a", Path("/s"), Path("/run/x"), 1, "tcg", (), cid).vsock == where
