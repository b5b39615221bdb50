"""A virtual machine of the inventory with the agent in a real Linux: by the machine's own vsock, and by a port."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from tests.agent_guest import PORTS, build
from tests.lent import content, cut, lent, ran

from reflexarc.errors import ConnectError, MachineError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.examining import machine_findings
from reflexarc.inventory.opening import open_session, start_vm, stop_vm
from reflexarc.machine.capabilities import Command
from reflexarc.runs.session import Session

pytestmark = [pytest.mark.guest, pytest.mark.timeout(240)]
BOOT = 120.0
BOOT_ID = Command(line="cat /proc/sys/kernel/random/boot_id")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entry]:
    """The entry of a machine that is launched and off."""
    folder = tmp_path_factory.mktemp("vm")
    (folder / "guest").mkdir()
    kernel, image = build(folder / "guest")
    ports = ["-device", "virtio-serial-pci"]
    for port in PORTS:
        ports += ["-chardev", f"socket,id={port},path={folder / port},server=on,wait=off"]
        ports += ["-device", f"virtserialport,chardev={port},name={port}"]
    arguments = [
        "-kernel",
        str(kernel),
        "-initrd",
        str(image),
        "-append",
        "quiet console=ttyS0 panic=-1",
        *ports,
    ]
    (folder / "reflexarc.toml").write_text(
        '[machines.lab1]\ndrivers = ["qemu", "agent"]\n'
        "[machines.lab1.qemu]\nmemory_mib = 512\nvsock = true\n"
        f"arguments = {arguments}\n"
        "[machines.lab1.agent]\nenabled = true\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFLEXARC_STATE", str(folder / "state"))
        entry = entries.load(folder / "reflexarc.toml").entry("lab1")
        start_vm(entry)
        try:
            yield entry
        finally:
            stop_vm(entry)


async def answers(session: Session) -> None:
    """Wait until the agent answers, as a step does that needs it."""
    async with asyncio.timeout(BOOT):
        while True:
            try:
                assert await ran(session.shell, Command(line="uname -s")) == (b"Linux\n", b"", 0)
                return
            except ConnectError:
                await asyncio.sleep(0.2)


def test_a_machine_is_driven_from_power_on_to_the_inside_of_its_guest(machine: Entry) -> None:
    data = os.urandom(300_000)

    async def run() -> None:
        async with open_session(machine) as session:
            with pytest.raises(ConnectError, match="its agent doesn't answer at vsock of its own"):
                await ran(session.shell, Command(line="true"))
            await session.power.on()
            await answers(session)
            many = Command(argv=("head", "-c", "3000000", "/dev/zero"))
            assert await ran(session.shell, many) == (bytes(3_000_000), b"", 0)
            await session.files.write("/tmp/f", cut(data), mode=0o600)
            assert await content(session.files, "/tmp/f") == data

    asyncio.run(run())


def test_the_same_agent_answers_at_a_serial_port_and_the_doctor_finds_it(machine: Entry) -> None:
    async def run() -> None:
        folder = machine.source.parent
        async with lent(folder / "port-state", transport="virtio_serial", path=folder / PORTS[0]) as found:
            told = await asyncio.gather(*(ran(found.shell, Command(line=f"exit {n}")) for n in range(3)))
            assert [status for _, _, status in told] == [0, 1, 2]
            known = await found.agent.look()
            assert (known.version, known.os) == (3, "linux")
        (finding,) = [f for f in await machine_findings(machine) if f.check == "agent"]
        assert finding.ok
        assert "vsock of its own, port 2035" in finding.detail

    asyncio.run(run())


@pytest.mark.full
def test_a_reset_ends_what_runs_and_the_agent_is_found_again(machine: Entry) -> None:
    async def run() -> None:
        async with open_session(machine, grant=["power.reset"]) as session:
            await session.power.on()
            await answers(session)
            before = await ran(session.shell, BOOT_ID)
            running = asyncio.create_task(ran(session.shell, Command(line="sleep 1000")))
            assert (await ran(session.shell, Command(line="true")))[2] == 0
            await session.power.reset()
            with pytest.raises(MachineError, match="may have happened"):
                await running
            await answers(session)
            assert await ran(session.shell, BOOT_ID) != before

    asyncio.run(run())
