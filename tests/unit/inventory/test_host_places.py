"""The folders and addresses that an inventory names for a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.places import kept, places


def entry(tmp_path: Path, text: str) -> Entry:
    file = tmp_path / "reflexarc.toml"
    file.write_text(f'[machines.lab]\ndrivers = ["qemu"]\n{text}\n')
    return entries.load(file).entry("lab")


def test_folders_are_those_beside_the_inventory_and_addresses_stay(tmp_path: Path) -> None:
    found = entry(
        tmp_path, 'media = ["iso", "/srv/iso", "~/iso", "https://mirror.example.org/iso"]\nexchange = "box"'
    )
    assert found.media == (
        str(tmp_path / "iso"),
        "/srv/iso",
        str(Path.home() / "iso"),
        "https://mirror.example.org/iso",
    )
    assert found.exchange == tmp_path / "box"
    assert (entry(tmp_path, "").media, entry(tmp_path, "").exchange) == ((), None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("media = 'iso'", "is a list"),
        ("media = ['']", "names a folder"),
        ('media = ["a\\u0000b"]', "names a folder"),
        ("media = ['ftp://mirror.example.org']", "no http or https address"),
        ("media = ['https://user@mirror.example.org']", "no http or https address"),
        ("media = ['https://']", "no http or https address"),
        ("media = ['~nosuchuser0/iso']", "no such user"),
        ("exchange = ['box']", "is a folder"),
        ("exchange = 'https://mirror.example.org'", "is a folder"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        entry(tmp_path, text)
    assert caught.value.line == 3


def test_what_reflexarc_keeps_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    mine = kept(tmp_path / "reflexarc.toml")
    assert {places().journal.parent, tmp_path / "config/reflexarc", tmp_path / "reflexarc.toml"} <= set(mine)
