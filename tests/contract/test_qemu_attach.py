"""Machines that somebody else started, by their QMP socket."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.contract.rigs import Machine, follows, is_menu, said, shown, stroke

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.errors import ConfigError, ConnectError, ConnectionLostError, MachineBusyError
from reflexarc.inventory import entries, opening
from reflexarc.machine.capabilities import BootDevice, PowerState

pytestmark = [pytest.mark.guest, pytest.mark.full, pytest.mark.timeout(600)]


def listens(path: Path) -> bool:
    """Tell whether a socket takes connections, without making one. Source: proc_net_unix(5), __SO_ACCEPTCON."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return any(line.split()[3] == "00010000" for line in lines if line.endswith(f" {path}"))


@contextmanager
def foreign(folder: Path, *arguments: str) -> Iterator[QemuConfig]:
    """A QEMU that reflexarc knows nothing of, waiting to be switched on."""
    sockets = folder / "qmp.sock", folder / "serial.sock"
    command = [
        *("qemu-system-x86_64", "-S", "-accel", "tcg", "-m", "128", "-no-shutdown"),
        *(
            "-qmp",
            f"unix:{sockets[0]},server=on,wait=off",
            "-serial",
            f"unix:{sockets[1]},server=on,wait=off",
        ),
        *arguments,
    ]
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + 20
            while not all(listens(socket_) for socket_ in sockets):
                assert process.poll() is None
                assert time.monotonic() < deadline
            yield QemuConfig(attach=sockets[0], serial=sockets[1])
        finally:
            process.kill()


def test_a_machine_of_somebody_else_is_driven_like_ones_own(
    cdrom: Path, state_dir: Path, tmp_path: Path
) -> None:
    async def run(config: QemuConfig) -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.boot.set(BootDevice.CDROM, once=False)
            assert (await machine.boot.setting()).device is BootDevice.CDROM
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await machine.snapshot.save("menu")
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            await follows(machine)
            assert machine.screen.source() == "D-Bus display, pushed"
            await machine.pointer.move(1023, 767)
            await machine.snapshot.restore("menu")
            await shown(machine.screen, partial(is_menu, width=720))
            assert await machine.media.inserted() == str(cdrom)
            await machine.media.eject()
            await machine.power.off()
            assert await machine.power.state() is PowerState.OFF

    display = ("-display", "dbus,p2p=yes", "-usb", "-device", "usb-tablet")
    with foreign(tmp_path, "-cdrom", str(cdrom), *display) as config:
        asyncio.run(run(config))


def test_only_what_its_qemu_offers_is_lent(cdrom: Path, state_dir: Path, tmp_path: Path) -> None:
    async def run(config: QemuConfig) -> tuple[tuple[str, ...], str]:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            assert lent.screen is not None
            assert lent.power is not None
            await lent.power.on()
            await shown(lent.screen, partial(is_menu, width=720))
            return lent.names(), lent.screen.source()

    # The machine type has a mouse that VMware's guests take for an absolute one; without it there is none.
    plain = ("-display", "none", "-machine", "pc,vmport=off", "-drive", f"if=virtio,format=raw,file={cdrom}")
    with foreign(tmp_path, *plain, "-nodefaults", "-vga", "std") as config:
        alone = QemuConfig(attach=config.attach)
        names, source = asyncio.run(run(alone))
    assert names == ("power", "screen", "keyboard", "boot", "snapshot", "freeze")
    assert source == "screendump, polled"


def test_its_console_is_read_and_written_by_its_socket(linux: Path, state_dir: Path, tmp_path: Path) -> None:
    async def run(config: QemuConfig) -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            assert lent.console is not None
            assert lent.power is not None
            reading = asyncio.create_task(said(lent.console, "READY"))
            await asyncio.sleep(0)
            await lent.power.on()
            await reading
            await lent.console.write("grüezi\n")
            await said(lent.console, "serial [grüezi]")

    boot = linux.read_text().split('"$@"')[1].split()
    with foreign(tmp_path, "-display", "none", *boot[:4], "-append", "quiet console=ttyS0") as config:
        asyncio.run(run(config))


def test_a_socket_that_others_use_is_an_error_within_two_seconds(state_dir: Path, tmp_path: Path) -> None:
    async def attach(config: QemuConfig, *, twice: bool = False) -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir):
            if twice:
                await attach(config)

    with foreign(tmp_path, "-display", "none") as config, socket.socket(socket.AF_UNIX) as other:
        other.connect(str(config.attach))
        assert other.recv(1) == b"{"
        began = time.monotonic()
        with pytest.raises(ConnectError, match="another program is connected to it; end that one"):
            asyncio.run(attach(config))
        assert time.monotonic() - began < 2
        other.close()
        with pytest.raises(MachineBusyError, match="another program is connected"):
            asyncio.run(attach(config, twice=True))


def test_a_machine_that_is_not_there_or_goes_away_says_so(state_dir: Path, tmp_path: Path) -> None:
    async def run(config: QemuConfig) -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            assert lent.power is not None
            socket_of = config.attach
            assert socket_of is not None
            await lent.power.on()
            quit_ = partial(subprocess.run, ["fuser", "-k", str(socket_of)], capture_output=True, check=False)
            await asyncio.to_thread(quit_)
            await lent.power.state()

    with pytest.raises(
        ConnectError, match=r"guest: .*absent.sock can't be attached to .* start that machine"
    ):
        asyncio.run(run(QemuConfig(attach=tmp_path / "absent.sock")))
    with (
        foreign(tmp_path, "-display", "none") as config,
        pytest.raises(ConnectionLostError, match=r"qmp\.sock"),
    ):
        asyncio.run(run(config))


def test_it_is_not_reflexarcs_to_start_or_stop(tmp_path: Path) -> None:
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text('[machines.other]\ndrivers = ["qemu"]\nqemu = {attach = "qmp.sock"}\n')
    entry = entries.load(inventory).entry("other")
    assert opening.running_vm(entry) is None
    for act in (opening.start_vm, opening.stop_vm):
        with pytest.raises(ConfigError, match="other is not reflexarc's to st"):
            act(entry)
