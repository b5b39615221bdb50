"""What the page on QEMU machines says of the inventory is what the inventory takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reflexarc.drivers.qemu.config import ATTACH_KEYS, LAUNCH_KEYS, QemuConfig
from reflexarc.inventory import entries

PAGE = (Path(__file__).parents[3] / "docs/qemu.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_every_key_is_told_of_and_no_other() -> None:
    (table,) = re.findall(r"\n\| key \|.*?\n\n", PAGE, re.DOTALL)
    named = {
        key for row in table.strip().splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert named == {*LAUNCH_KEYS, *ATTACH_KEYS}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_are_taken(example: str, tmp_path: Path) -> None:
    for name in re.findall(r"[\w-]+\.(?:qcow2|iso|bin)", example):
        (tmp_path / name).touch()
    head = "" if "drivers =" in example else '[machines.server]\ndrivers = ["qemu"]\n'
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(head + example)
    (entry,) = entries.load(inventory).machines.values()
    config = QemuConfig.parse(entry.settings["qemu"], machine=entry.name, folder=tmp_path)
    assert config != QemuConfig()
