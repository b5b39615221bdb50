"""Arguments that are absurd, given twice or name what isn't there: one clear error each, or what was meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command

DAYS = "999999999999999999999999"


@pytest.mark.parametrize(
    "arguments",
    [
        ("watch", "lab", "--until", "power_off", "--timeout", "1e300"),
        ("watch", "lab", "--until", "power_off", "--timeout", "nan"),
        ("power", "lab", "shutdown", "--timeout", "inf"),
        ("power", "lab", "shutdown", "--timeout", "-1"),
        ("audit", "--limit", DAYS),
        ("runs", "list", "--limit", DAYS),
        ("runs", "stats", "--limit", DAYS),
        ("key", "lab", "enter", "--times", DAYS),
        ("run", "played.yaml", "-m", "lab", "--max-escalations", DAYS),
    ],
)
def test_numbers_are_bounded(command: Command, arguments: tuple[str, ...]) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "range" in done.stderr or "is no time" in done.stderr
    assert "mistake of reflexarc" not in done.stderr


def test_a_machine_that_is_named_twice_is_driven_once(command: Command, lab: Path) -> None:
    steps = [{"name": "off", "wait_for": "power_off"}]
    (lab / "looks.yaml").write_text(yaml.safe_dump({"name": "looks", "steps": steps}))
    done = command("run", "looks.yaml", "-m", "lab", "-m", "l*", "-m", "lab", "--json")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "succeeded")
    assert len(json.loads(command("runs", "list", "--json").stdout)) == 1


def test_a_policy_that_is_named_and_not_there_allows_nothing(command: Command, lab: Path) -> None:
    missing = {"REFLEXARC_POLICY": str(lab / "none.toml")}
    for arguments in (("observe", "lab"), ("power", "lab", "on"), ("run", "played.yaml", "-m", "lab")):
        done = command(*arguments, **missing)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{lab / 'none.toml'}: $REFLEXARC_POLICY names a policy that is not there" in done.stderr
    assert not (lab / "state" / "audit.jsonl").exists()


def misplaced(lab: Path, **more: object) -> None:
    step = {"name": "in", "action": "mount_iso", "args": {"source": "/etc/hostname"}, "destructive": True}
    (lab / "mounts.yaml").write_text(yaml.safe_dump({"name": "mounts", "steps": [{**step, **more}]}))


def test_a_misplaced_image_is_a_mistake_for_that_machine(command: Command, lab: Path) -> None:
    misplaced(lab)
    assert command("playbook", "validate", "mounts.yaml").returncode == 0
    done = command("playbook", "validate", "mounts.yaml", "-m", "lab", "--json")
    (checked,) = json.loads(done.stdout)
    assert (done.returncode, checked["valid"], len(checked["errors"])) == (2, False, 1)
    source = next(
        n for n, line in enumerate((lab / "mounts.yaml").read_text().splitlines(), 1) if "source" in line
    )
    assert checked["errors"][0]["line"] == source
    assert "`media`" in checked["errors"][0]["message"]
    dry = command("run", "mounts.yaml", "-m", "lab", "--dry-run", "--json")
    files = [found for found in json.loads(dry.stdout)["preflight"] if found["check"] == "files"]
    assert (dry.returncode, [found["severity"] for found in files]) == (1, ["critical"])


def test_one_in_a_step_that_may_be_skipped_is_a_doubt(command: Command, lab: Path) -> None:
    misplaced(lab, when={"value": "a", "equals": "b"})
    done = command("playbook", "validate", "mounts.yaml", "-m", "lab", "--json")
    (checked,) = json.loads(done.stdout)
    assert (done.returncode, checked["valid"]) == (0, True)
    assert "host-file" in [warning["code"] for warning in checked["warnings"]]
    assert command("playbook", "validate", "mounts.yaml", "-m", "lab", "--strict").returncode == 1


def test_init_says_what_is_missing_and_what_comes_next(command: Command, lab: Path) -> None:
    done = command("init", "box", "--file", "new.toml")
    assert (done.returncode, "neither disk nor cdrom" in done.stderr) == (0, True)
    for words in ("doctor box", "machines start box", "power box on", "run PLAYBOOK.yaml -m box"):
        assert f" {words} --inventory new.toml " in done.stdout
    done = command("init", "box", "--file", "newer.toml", "--disk", "none.qcow2")
    assert (done.returncode, "there is no file" in done.stderr) == (0, True)
    (lab / "my.qcow2").write_bytes(b"")
    done = command("init", "box", "--file", "newest.toml", "--disk", "my.qcow2")
    assert "none.qcow2" not in done.stderr
    assert "neither" not in done.stderr
