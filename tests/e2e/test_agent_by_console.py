"""A guest without anything of ours: the agent gets in by its serial console, and answers on a virtio-serial port."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.agent_guest import put_python
from tests.guests import build_guest, cloud_kernel

import reflexarc
from reflexarc.inventory import entries
from reflexarc.inventory.opening import stop_vm
from reflexarc.machine.capabilities import Command, Exited, Output

PORT = "reflexarc"
INIT = """#!/bin/sh
export PATH=/bin:/usr/bin HOME=/root PS1='# '
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /tmp /run /etc /root
echo 'root:x:0:0:root:/root:/bin/sh' > /etc/passwd
load virtio_pci virtio_console
while :; do setsid sh -c 'exec sh -i < /dev/ttyS0 > /dev/ttyS0 2>&1'; done
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory with a machine that runs, its root's shell on the serial console."""
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    put_python(tmp_path / "root")
    build_guest(tmp_path / "root", INIT, ("virtio_pci", "virtio_console"), tmp_path / "initrd")
    loaded = ("-kernel", str(cloud_kernel().image), "-initrd", str(tmp_path / "initrd"))
    program = tmp_path / "qemu"
    program.write_text(
        f'#!/bin/sh\nexec qemu-system-x86_64 "$@" {shlex.join(loaded)} -append "quiet console=ttyS0"\n'
    )
    program.chmod(0o755)
    arguments = [
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,path={tmp_path / 'port'},server=on,wait=off",
        "-device", f"virtserialport,chardev=agent,name={PORT}",
    ]  # fmt: skip
    path = tmp_path / "reflexarc.toml"
    path.write_text(
        '[machines.guest]\ndrivers = ["qemu", "agent"]\n'
        f'[machines.guest.qemu]\nbinary = "{program}"\nmemory_mib = 384\naccel = "tcg"\nnetwork = "none"\n'
        f"arguments = {json.dumps(arguments)}\n"
        f'[machines.guest.agent]\nenabled = true\ntransport = "virtio_serial"\npath = "{tmp_path / "port"}"\n'
    )
    told(path, "machines", "start", "guest")
    yield path
    stop_vm(entries.load(path).entry("guest"))


def told(inventory: Path, *arguments: str) -> str:
    """What a command of ours says."""
    done = subprocess.run(
        [sys.executable, "-m", "reflexarc", *arguments, "--inventory", str(inventory)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
@pytest.mark.guest
@pytest.mark.timeout(400)
def test_the_agent_gets_in_by_the_console_and_answers(inventory: Path) -> None:
    async def switch_on() -> None:
        async with reflexarc.open("guest", inventory=inventory) as machine:
            await machine.power.on()
            await machine.wait_for({"serial": "# $"}, timeout=120)

    async def asked() -> tuple[bytes, int]:
        async with reflexarc.open("guest", inventory=inventory) as machine:
            said = b""
            async with aclosing(machine.shell.run(Command(line="cat /proc/1/comm; uname -s"))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Exited):
                        return said, piece.status
                    assert isinstance(piece, Output)
                    said += piece.data
        raise AssertionError("no exit")

    asyncio.run(switch_on())
    done = json.loads(
        told(inventory, "agent", "install", "guest", "--via", "console", "--virtio-serial", PORT, "--json")
    )
    assert (done["copied"], done["started_by"]) == (True, "itself")
    assert asyncio.run(asked()) == (b"init\nLinux\n", 0)
