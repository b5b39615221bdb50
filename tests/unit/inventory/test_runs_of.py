"""A run belongs to the machine of the inventory that it was started from."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.opening import entry_of_run, inventory_note


def test_a_run_goes_to_no_other_machine_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    text = '[machines.vm]\ndrivers = ["qemu"]\n[machines.vm.qemu]\nmemory_mib = 128\n'
    own, other = tmp_path / "own.toml", tmp_path / "reflexarc.toml"
    own.write_text(text)
    other.write_text(text)
    note = inventory_note("r1")
    note.parent.mkdir(parents=True)
    note.write_text(str(own))
    assert entry_of_run("r1", "vm", None).source == own
    with pytest.raises(ConfigError, match="belongs to the machine vm of"):
        entry_of_run("r1", "vm", other)
    own.unlink()
    for named in (None, other):
        with pytest.raises(ConfigError, match=r"gone; put it back|belongs to"):
            entry_of_run("r1", "vm", named)


def test_an_inventory_is_never_read_in_part(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text("# \n" * 400_000)
    with pytest.raises(ConfigError, match="larger than 1,000,000 bytes"):
        entries.load(tmp_path / "large.toml")
