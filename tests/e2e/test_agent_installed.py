"""The agent is installed for good in a Debian with a desktop: by an agent, over SSH, and by the console."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.desk import PORT, Desk, desk

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session, stop_vm

pytestmark = [pytest.mark.full, pytest.mark.guest, pytest.mark.timeout(2400)]
OWN = "/home/lab/.local/share/reflexarc/reflexarc-agent.pyz"
OWN_UNIT = "/home/lab/.config/systemd/user/reflexarc-agent.service"
WHOLE = "/usr/local/lib/reflexarc/reflexarc-agent.pyz"
WHOLE_UNIT = "/etc/systemd/system/reflexarc-agent.service"
BUTTON = ("--role", "AXButton", "--name", "Build")


@dataclass(frozen=True)
class Lab:
    """One machine, by one inventory that is written anew for each way to its agent."""

    desk: Desk

    @property
    def inventory(self) -> Path:
        return self.desk.folder / "lab.toml"

    def by(self, *drivers: str, transport: str = "vsock") -> Lab:
        """Reach it by these drivers only, from now on."""
        text = self.desk.inventory(transport).read_text()
        self.inventory.write_text(re.sub(r"drivers = .*", f"drivers = {json.dumps(drivers)}", text, count=1))
        return self

    def told(self, *arguments: str, code: int = 0) -> str:
        """What a command of ours says."""
        first, *rest = arguments
        options = ["--inventory", str(self.inventory)]
        done = self.desk.reflexarc(*([first, *options, *rest] if first == "exec" else [*arguments, *options]))
        assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def inside(self, *argv: str) -> str:
        return self.told("exec", "lab", "--", *argv).strip()

    def install(self, *arguments: str) -> tuple[bool, str]:
        """Install it; whether it was copied, and who started it."""
        done = json.loads(self.told("agent", "install", "lab", "--json", *arguments))
        return done["copied"], done["started_by"]

    def up(self) -> None:
        """Go from GRUB to the desktop, and to an agent that tells of it."""

        async def enter() -> None:
            async with open_session(entries.load(self.inventory).entry("lab"), launch=False) as session:
                await session.wait_for("grub_menu", timeout=120)
                await session.keyboard.press("enter")

        asyncio.run(enter())
        self.told("ax", "wait", "lab", *BUTTON, "--timeout", "300")

    def again(self) -> None:
        """Start the guest anew, by itself."""
        self.by("qemu", "ssh").inside("systemctl", "reboot")
        self.by("qemu", "agent").up()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    lab = Lab(desk(tmp_path).kept()).by("qemu", "agent")
    lab.told("machines", "start", "lab")
    lab.told("power", "lab", "on")
    yield lab
    stop_vm(entries.load(lab.inventory).entry("lab"))


def test_it_is_installed_each_way_and_outlives_starts_of_its_guest(lab: Lab) -> None:
    lab.up()
    by_the_agent_that_is_there(lab)
    lab.again()
    assert unit(lab, "--user") == OWN_UNIT
    upgraded_and_removed_by_itself(lab)
    over_ssh_for_the_whole_guest(lab)
    lab.again()
    assert (unit(lab, "--system"), lab.inside("id", "-un")) == (WHOLE_UNIT, "root")
    by_the_console(lab)
    removed_over_ssh(lab)


def by_the_agent_that_is_there(lab: Lab) -> None:
    assert lab.install("--via", "exec", "--user", "--vsock") == (True, "systemd")
    assert (unit(lab, "--user"), lab.inside("id", "-un")) == (OWN_UNIT, "lab")
    lab.told("ax", "find", "lab", *BUTTON)


def upgraded_and_removed_by_itself(lab: Lab) -> None:
    before = lab.inside("python3", OWN, "status", "--user")
    lab.inside("sh", "-c", f"printf older >>{OWN}")
    assert lab.install("--via", "exec", "--user", "--vsock") == (True, "systemd")
    after = lab.inside("python3", OWN, "status", "--user")
    assert after.startswith("running ")
    assert after != before
    assert lab.install("--via", "exec", "--user", "--vsock") == (False, "systemd")
    # It ends with the agent whose command it is.
    lab.told("exec", "lab", "--", "python3", OWN, "uninstall", "--user", code=1)
    lab.told("exec", "lab", "--", "true", code=1)
    lab.by("qemu", "ssh")
    assert lab.inside("find", "/home/lab", "-name", "reflexarc*") == "/home/lab/.local/share/reflexarc"
    lab.inside("rm", "/etc/systemd/user/reflexarc-agent.service")


def over_ssh_for_the_whole_guest(lab: Lab) -> None:
    options = ("--via", "ssh", "--system", "--desktop", "--vsock")
    assert lab.install(*options) == (True, "systemd")
    assert lab.install(*options) == (False, "systemd")
    lab.by("qemu", "agent")
    assert (unit(lab, "--system"), lab.inside("id", "-un")) == (WHOLE_UNIT, "root")
    lab.told("ax", "find", "lab", *BUTTON)


def by_the_console(lab: Lab) -> None:
    lab.by("qemu")
    assert lab.install("--via", "console", "--system", "--virtio-serial", PORT) == (False, "systemd")
    lab.by("qemu", "agent").told("exec", "lab", "--", "true", code=1)
    lab.by("qemu", "agent", transport="virtio_serial")
    assert (unit(lab, "--system"), lab.inside("id", "-un")) == (WHOLE_UNIT, "root")


def removed_over_ssh(lab: Lab) -> None:
    lab.by("qemu", "ssh").inside("python3", WHOLE, "uninstall", "--system")
    assert lab.inside("find", "/etc/systemd/system", "/usr/local/lib/reflexarc", "-name", "*agent*") == ""
    lab.by("qemu", "agent", transport="virtio_serial").told("exec", "lab", "--", "true", code=1)


def unit(lab: Lab, whose: str) -> str:
    """The file of the unit that runs."""
    shown = lab.inside("systemctl", whose, "show", "--property=FragmentPath,ActiveState", "reflexarc-agent")
    told = dict(line.split("=") for line in shown.splitlines())
    assert told["ActiveState"] == "active"
    return told["FragmentPath"]
