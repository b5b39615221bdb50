"""The rigs: each contract test runs over every driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.rigs import PLAYED_MENU, PLAYED_SYSTEM, Machine, Rig, played, said
from tests.desktop import accessibility, desktop, gtk3, own_gtk3, x11  # noqa: F401  (fixtures)
from tests.guests import build_cdrom, build_desk, build_linux
from tests.sshd import own_state, ssh_state, sshd  # noqa: F401  (fixtures)

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import find


@pytest.fixture(scope="session")
def cdrom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cdrom(tmp_path_factory.mktemp("cdrom"))


@pytest.fixture(scope="session")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_linux(tmp_path_factory.mktemp("linux"))


@pytest.fixture
def menu_config(cdrom: Path) -> QemuConfig:
    return QemuConfig(cdroms=(cdrom,), memory_mib=128, accel="tcg")


@pytest.fixture(scope="session")
def system_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    state_dir = tmp_path_factory.mktemp("system")
    yield state_dir
    vm = find("guest", state_dir)
    if vm is not None:
        vm.stop()


@pytest.fixture
def system_config(linux: Path) -> QemuConfig:
    return QemuConfig(binary=str(linux), memory_mib=256, accel="tcg")


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="session")
def desk_config(desk: Path) -> QemuConfig:
    return QemuConfig(binary=str(desk), memory_mib=512, accel="tcg")


@pytest.fixture(scope="session")
def desk_dir(tmp_path_factory: pytest.TempPathFactory, desk_config: QemuConfig) -> Iterator[Path]:
    """The state folder of a desk that is up and says so; one for all tests."""
    state_dir = tmp_path_factory.mktemp("desk-state")

    async def start() -> None:
        async with open_driver(desk_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await said(machine.console, "READY")

    asyncio.run(start())
    yield state_dir
    vm = find("guest", state_dir)
    if vm is not None:
        vm.stop()


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state folder; a QEMU that is left in it is ended."""
    yield tmp_path / "state"
    vm = find("guest", tmp_path / "state")
    if vm is not None:
        vm.stop()


def _launched(config: QemuConfig, state_dir: Path) -> Rig:
    @asynccontextmanager
    async def rig() -> AsyncIterator[Machine]:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            yield Machine.of(lent)

    return rig


@pytest.fixture(params=["replay", pytest.param("qemu", marks=pytest.mark.guest)])
def menu(request: pytest.FixtureRequest, state_dir: Path) -> Rig:
    if request.param == "replay":
        return played(PLAYED_MENU)
    return _launched(request.getfixturevalue("menu_config"), state_dir)


@pytest.fixture(params=["replay", pytest.param("qemu", marks=pytest.mark.guest)])
def system(request: pytest.FixtureRequest) -> Rig:
    """The same machine for every test: it takes a while to start."""
    if request.param == "replay":
        return played(PLAYED_SYSTEM)
    return _launched(request.getfixturevalue("system_config"), request.getfixturevalue("system_dir"))
