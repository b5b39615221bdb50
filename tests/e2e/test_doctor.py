"""`reflexarc doctor`: a played machine, a wrong inventory, and a real VM that it must not start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Command, end_vms

from reflexarc.inventory import host, keeping
from reflexarc.runs.preflight import Severity

VM = """\
[machines.vm]
drivers = ["qemu"]
allow = {people = ["observe", "power"]}
[machines.vm.qemu]
memory_mib = 64
accel = "tcg"
"""


def told(command: Command, *arguments: str, code: int = 0) -> dict[str, dict[str, dict[str, Any]]]:
    """Findings by machine and check; the host's under ``host``."""
    done = command("doctor", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    data = json.loads(done.stdout)
    several = {"host": data["host"], **data["machines"]}
    return {name: {one["check"]: one for one in findings} for name, findings in several.items()}


def test_a_played_machine(command: Command, lab: Path) -> None:
    found = told(command)
    assert found["host"]["inventory"]["detail"] == "1 machine in reflexarc.toml"
    assert {"qemu", "acceleration", "space", "display"} <= set(found["host"])
    machine = found["lab"]
    assert (machine["reachable"]["severity"], machine["power"]["detail"]) == ("ok", "off")
    assert machine["signal"]["severity"] == "info"
    assert "default" in machine["policy"]["detail"]
    assert machine["lock"]["detail"] == "nobody holds it"
    assert machine["agent"]["detail"] == "not configured"
    assert set(told(command, "l*")) == {"host", "lab"}
    text = command("doctor", "lab").stdout
    assert "lab\n" in text
    assert "  info      lock          nobody holds it" in text


def test_mistakes_of_the_inventory_are_findings(command: Command, lab: Path) -> None:
    assert command("doctor", "lba").returncode == 2
    (lab / "reflexarc.toml").write_text('[machines.a]\ndrivers = ["qemu"]\nqemu = {disk = "none.qcow2"}\n')
    found = told(command, "a", code=1)["a"]
    assert found["settings"]["severity"] == "critical"
    assert "there is no file" in found["settings"]["detail"]
    assert "reflexarc.toml" in found["settings"]["fix"]
    (lab / "reflexarc.toml").write_text('[machines.a]\ndrivers = ["qmeu"]\n')
    found = told(command, code=1)["host"]
    assert found["inventory"]["severity"] == "critical"
    assert "reflexarc.toml:2: " in found["inventory"]["detail"]
    (lab / "reflexarc.toml").unlink()
    assert told(command)["host"]["inventory"]["fix"] == "reflexarc init"


def test_who_holds_the_lock(command: Command, lab: Path) -> None:
    from reflexarc.inventory import entries
    from reflexarc.machine.lock import MachineLock

    entry = entries.load(lab / "reflexarc.toml").entry("lab")
    place = lab / "state" / "machines" / entry.place
    lock = MachineLock(place / "lock", "lab", "a run of boot.yaml")
    lock.acquire()
    try:
        assert told(command, "lab")["lab"]["lock"]["detail"].startswith(
            "held by a run of boot.yaml (process "
        )
    finally:
        lock.release()
    assert told(command, "lab")["lab"]["lock"]["detail"] == "nobody holds it"


def test_a_missing_program_is_named_with_its_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {finding.check: finding for finding in host.host_findings(needs_qemu=True)}
    assert found["qemu"].severity is Severity.CRITICAL
    for way in ("apt-get install", "dnf install", "pacman -S", "brew install qemu"):
        assert way in found["qemu"].fix
    assert found["xorriso"].severity is Severity.INFO
    assert "display" not in found


def test_a_state_folder_that_is_nearly_full(tmp_path: Path) -> None:
    state = tmp_path / "not" / "there"
    assert keeping.space(state).severity is Severity.OK
    assert keeping.space(state, little=10**18).severity is Severity.WARNING
    assert keeping.space(state, little=10**18, too_little=10**18).severity is Severity.CRITICAL
    assert not state.exists()


@pytest.fixture
def vm(lab: Path, command: Command) -> Iterator[Path]:
    (lab / "reflexarc.toml").write_text(VM)
    yield lab
    end_vms(lab)


@pytest.mark.guest
def test_a_vm_that_does_not_run_is_left_alone_and_one_that_does_is_asked(command: Command, vm: Path) -> None:
    found = told(command, "vm")["vm"]
    assert found["reachable"]["detail"] == "its virtual machine is not running"
    assert found["acceleration"]["detail"] == "emulated (TCG): its entry in the inventory says so"
    assert "people: observe, power" in found["policy"]["detail"]
    assert "power" not in found
    assert list((vm / "state").rglob("qemu.pid")) == []
    assert command("machines", "start", "vm").returncode == 0
    found = told(command, "vm")["vm"]
    assert (found["power"]["detail"], found["running"]["detail"]) == ("off", "emulated (TCG)")
    assert found["display"]["detail"].startswith("D-Bus display; ")
    assert command("power", "vm", "status").stdout == "vm: off\n"
    assert found["snapshot"]["detail"] == "offered"
    assert list((vm / "state").rglob("vmstate.qcow2")) == []
