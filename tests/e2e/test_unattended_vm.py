"""Playbooks on a virtual machine: the design's own example as it stands, and the actions that devices carry out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import end_vms, environment, start
from tests.guests import build_installer

TESTS = Path(__file__).parents[1]

pytestmark = [pytest.mark.guest, pytest.mark.timeout(400)]

INVENTORY = """
[machines.lab1]
drivers = ["qemu"]
media = ["iso"]
[machines.lab1.qemu]
accel = "tcg"
memory_mib = 256
"""

# Every act that a device carries out, on one boot of the guest.
ACTS = """
name: acts
authorize:
  destructive: true
  ops: [media, boot, power.cycle, snapshot.restore]
hold: freeze
steps:
  - {name: in, action: mount_iso, args: {source: installer.iso}, destructive: true}
  - {name: from, action: set_boot_device, args: {device: cdrom, once: true}, destructive: true, precondition: power_off}
  - {name: start, action: hard_cycle, destructive: true, precondition: power_off}
  - {name: point, wait_for: grub_menu, action: move, args: {text: Something else}, register: place}
  - {name: save, action: snapshot, args: {name: menu}}
  - {name: other, action: press_key, args: {key: down}, expect: {text: Something else, highlighted: true}}
  - {name: stop, action: freeze}
  - {name: go, action: unfreeze}
  - name: back
    action: rollback
    args: {name: menu}
    destructive: true
    precondition: {text: Something else, highlighted: true}
    expect: {text: Install, highlighted: true}
  - {name: enter, action: press_key, args: {key: enter}}
  - name: ask
    wait_for: installer_complete
    action: run_serial
    args: {command: 'echo "it is $(cat /proc/sys/kernel/ostype)"; exit 4', ok_codes: [4]}
    register: kernel
  - {name: wrong, action: run_serial, args: {command: 'false'}}
  - {name: out, precondition: installer_complete, action: eject, destructive: true}
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    screens = TESTS / "screens"
    folder = tmp_path_factory.mktemp("installer")
    return build_installer(folder, screens / "di_base_system.txt", screens / "di_complete.txt")


@pytest.fixture
def lab(tmp_path: Path, image: Path) -> Iterator[Path]:
    (tmp_path / "reflexarc.toml").write_text(INVENTORY)
    (tmp_path / "iso").mkdir()
    (tmp_path / "iso/installer.iso").hardlink_to(image)
    yield tmp_path
    end_vms(tmp_path)


def command(lab: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        start(arguments),
        cwd=lab,
        env=environment(lab, {}),
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )


def test_the_example_installs_from_virtual_media(lab: Path, image: Path) -> None:
    book = TESTS / "playbooks/unattended-ubuntu-install.yaml"
    done = command(
        lab, "run", str(book), "--machine", "lab1", "--var", f"iso={image}",
        "--grant", "media.mount,power.cycle,media.eject", "--json",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (done.returncode, told["outcome"]) == (0, "succeeded"), told
    audited = [json.loads(line) for line in (lab / "state/audit.jsonl").read_text().splitlines()]
    acts = [line["operation"] for line in audited if not line["operation"].startswith("observe.")]
    assert acts == ["media.mount", "power.cycle", "keyboard.press", "media.eject"]


@pytest.mark.full
def test_each_act_is_carried_out_and_read_back(lab: Path) -> None:
    (lab / "acts.yaml").write_text(ACTS)
    held = command(
        lab, "run", "acts.yaml", "--machine", "lab1",
        "--grant", "media,boot,power.cycle,snapshot.restore", "--json",
    )  # fmt: skip
    told = json.loads(held.stdout or held.stderr)
    assert (held.returncode, told["step_name"], told["reason"]) == (3, "wrong", "action_failed"), told[
        "detail"
    ]
    assert told["detail"].startswith("it ended with status 1, not 0")
    assert told["hold"]["kind"] == "freeze"
    kernel = told["registered"]["kernel"]
    assert (kernel["status"], kernel["stdout"], kernel["phase"]) == (4, "it is Linux\n", "installer_complete")
    assert told["registered"]["place"]["y"] > 0
    amended = {**yaml.safe_load(ACTS)}
    amended["steps"] = [step for step in amended["steps"] if step["name"] != "wrong"]
    (lab / "amended.yaml").write_text(yaml.safe_dump(amended))
    done = command(
        lab, "runs", "reply", told["run_id"], "amend", "amended.yaml", "--resume-at", "out", "--json"
    )
    ended = json.loads(done.stdout)
    assert (done.returncode, ended["outcome"]) == (0, "succeeded"), ended
    audited = [json.loads(line) for line in (lab / "state/audit.jsonl").read_text().splitlines()]
    acts = [
        line["operation"] for line in audited if not line["operation"].startswith(("observe.", "console."))
    ]
    assert acts == [
        "media.mount", "boot.set_device", "power.cycle", "pointer.move", "snapshot.save", "keyboard.press",
        "freeze.on", "freeze.off", "snapshot.restore", "keyboard.press", "freeze.on", "freeze.off", "media.eject",
    ]  # fmt: skip


def test_a_machine_that_a_run_froze_goes_on_when_the_run_is_aborted(lab: Path) -> None:
    steps = [
        {"name": "in", "action": "mount_iso", "args": {"source": "installer.iso"}, "destructive": True},
        {"name": "start", "action": "power_on"},
        {"name": "asked", "wait_for": "grub_menu"},
        {"name": "held", "wait_for": "login_prompt", "timeout": 0.2},
    ]
    book = {
        "name": "x",
        "hold": "freeze",
        "authorize": {"destructive": True, "ops": ["media"]},
        "steps": steps,
    }
    (lab / "held.yaml").write_text(yaml.safe_dump(book))
    assert command(lab, "machines", "start", "lab1").returncode == 0
    told = json.loads(
        command(lab, "run", "held.yaml", "--machine", "lab1", "--grant", "media", "--json").stdout
    )
    assert (told["reason"], told["hold"]["kind"]) == ("timeout", "freeze")
    refused = command(lab, "key", "lab1", "down")
    assert (refused.returncode, "frozen" in refused.stderr) == (1, True)
    assert command(lab, "runs", "abort", told["run_id"]).returncode == 0
    assert command(lab, "key", "lab1", "down").returncode == 0
    shown = json.loads(command(lab, "runs", "show", told["run_id"], "--json").stdout)
    assert shown["outcome"] == "aborted"
