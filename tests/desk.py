"""A virtual machine with a desktop and the agent in it, and the playbook that goes from power-on to a button."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from guests.desktop.system import DesktopImage, build
from tests.agents import archive

from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry

PLAYBOOK: dict[str, object] = {
    "name": "join",
    "description": "From power-on through GRUB to a button that is pressed, and what it did.",
    "unknown_after": 240,
    "steps": [
        {"name": "power on", "wait_for": "power_off", "action": "power_on"},
        {"name": "start", "wait_for": "grub_menu", "timeout": 60, "action": "press_key", "args": {"key": "enter"}},
        {
            "name": "fill", "wait_for": {"element": {"role": "AXTextField", "name": "Target"}}, "timeout": 240,
            "action": "ax_set_value", "args": {"role": "AXTextField", "name": "Target", "value": "release"},
        },
        {
            "name": "build", "wait_for": {"element": {"role": "AXButton", "name": "Build"}},
            "action": "ax_press", "args": {"role": "AXButton", "name": "Build"},
            "expect": {"element": {"text": "Built"}},
        },
        {
            "name": "check", "action": "exec", "args": {"argv": ["cat", "/home/lab/built"]}, "register": "built",
        },
        {
            "name": "was built", "action": "assert",
            "args": {"that": {"value": "{{ built.stdout }}", "equals": "built release\n"}},
        },
    ],
}  # fmt: skip
PORT = "reflexarc"
LAYER = 256 << 20


@dataclass(frozen=True)
class Desk:
    """A folder with an inventory of one machine, `lab`, for each way to its agent."""

    folder: Path

    def entry(self, transport: str) -> Entry:
        """The machine, with its agent reached that way."""
        return entries.load(self.inventory(transport)).entry("lab")

    def inventory(self, transport: str) -> Path:
        return self.folder / f"{transport}.toml"

    def reflexarc(self, *arguments: str, timeout: float = 420) -> subprocess.CompletedProcess[str]:
        """Run the command line there."""
        return subprocess.run(
            [sys.executable, "-m", "reflexarc", *arguments], cwd=self.folder, text=True, capture_output=True,
            env={**os.environ, "REFLEXARC_STATE": str(self.folder / "state")}, timeout=timeout, check=False,
        )  # fmt: skip

    def kept(self) -> Desk:
        """Give the machine a second disk, on which what is changed in the guest outlives its starts."""
        layer = self.folder / "layer.img"
        with layer.open("wb") as file:
            file.truncate(LAYER)
        subprocess.run(["/usr/sbin/mkfs.ext4", "-q", layer], check=True)
        for inventory in self.folder.glob("*.toml"):
            text = inventory.read_text().replace(
                'format = "raw"}]', f'format = "raw"}}, {{path = "{layer.name}", format = "raw"}}]'
            )
            inventory.write_text(text)
        return self

    def join(self, transport: str) -> dict[str, object]:
        """Run the playbook from a machine that is off, and return what `run --json` says."""
        playbook = self.folder / "join.yaml"
        playbook.write_text(yaml.safe_dump(PLAYBOOK))
        done = self.reflexarc(
            "run", str(playbook), "-m", "lab", "--inventory", str(self.inventory(transport)), "--json"
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return told


def desk(folder: Path) -> Desk:
    """Build the system, and write inventories for its agent over vsock, virtio-serial and TCP, and with SSH."""
    image = build(folder, archive(folder))
    tcp, ssh = free_port(), free_port()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{ssh} {image.host_key.read_text()}")
    agents: dict[str, dict[str, object]] = {
        "vsock": {},
        "virtio_serial": {"transport": "virtio_serial", "path": str(folder / "port")},
        "tcp": {"transport": "tcp", "host": "127.0.0.1", "port": tcp, "token": "file:token",
                "ca": "certificate.pem", "server_name": "lab"},
    }  # fmt: skip
    for name, agent in agents.items():
        (folder / f"{name}.toml").write_text(_inventory(folder, image, agent, tcp, ssh))
    return Desk(folder)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _inventory(folder: Path, image: DesktopImage, agent: dict[str, object], tcp: int, ssh: int) -> str:
    forwarded = f"hostfwd=tcp:127.0.0.1:{tcp}-:2035,hostfwd=tcp:127.0.0.1:{ssh}-:22"
    arguments = [
        "-netdev", f"user,id=net,restrict=on,{forwarded}", "-device", "e1000,netdev=net",
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=port,path={folder / 'port'},server=on,wait=off",
        "-device", f"virtserialport,chardev=port,name={PORT}",
    ]  # fmt: skip
    settings = {"enabled": True, **agent}
    return (
        '[machines.lab]\ndrivers = ["qemu", "agent", "ssh"]\n'
        f'[machines.lab.qemu]\ncdrom = "{image.cdrom.name}"\nmemory_mib = 1536\nmachine_type = "q35"\nvsock = true\n'
        f'network = "none"\ndisks = [{{path = "{image.disk.name}", format = "raw"}}]\n'
        f"arguments = {json.dumps(arguments)}\n"
        f"[machines.lab.agent]\n{''.join(f'{key} = {json.dumps(value)}{chr(10)}' for key, value in settings.items())}"
        f'[machines.lab.ssh]\nhost = "127.0.0.1"\nport = {ssh}\nuser = "root"\nidentity_file = "{image.key.name}"\n'
        'known_hosts = "known_hosts"\n'
    )
