"""What the inventory allows within what the host's own policy does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.allow import SystemPolicy, read_policy, system_policy
from reflexarc.machine.policy import Policy, covers

ME = {os.geteuid()}


def written(path: Path, text: str, mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_file_names_patterns_and_each_one_that_fits_counts(tmp_path: Path) -> None:
    file = written(
        tmp_path / "policy.toml",
        '[machines."*"]\nallow = {agents = ["observe"]}\n'
        '[machines."rack*"]\nallow = {people = ["observe", "input", "power.on"]}\n'
        '[machines.rack7]\nallow = {people = ["power"]}\n',
    )
    policy = SystemPolicy(read_policy(file, ME))
    assert policy.of("lab1") == Policy(("*",), ("observe",))
    assert policy.of("rack7") == Policy(("power.on",), ("observe",))
    assert SystemPolicy(read_policy(tmp_path / "none.toml", ME)).of("lab1") == Policy(("*",), ("*",))


@pytest.mark.parametrize(("file", "folder"), [(0o664, 0o755), (0o646, 0o755), (0o644, 0o775), (0o644, 0o757)])
def test_what_others_can_write_is_not_trusted(tmp_path: Path, file: int, folder: int) -> None:
    path = written(tmp_path / "policy.toml", '[machines."*"]\nallow = {}\n', file)
    tmp_path.chmod(folder)
    with pytest.raises(ConfigError, match="can't be trusted, and nothing is allowed"):
        read_policy(path, ME)


def test_what_somebody_else_owns_is_not_trusted(tmp_path: Path) -> None:
    path = written(tmp_path / "policy.toml", '[machines."*"]\nallow = {}\n')
    with pytest.raises(ConfigError, match=f"owned by user {os.geteuid()}"):
        read_policy(path, {os.geteuid() + 1})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("machines", "not TOML"),
        ("[machine.lab]\nallow = {}", "nothing else"),
        ("[machines.lab]\ndrivers = []", "alone"),
        ('[machines.lab]\nallow = {peple = ["*"]}', "people and agents"),
        ('[machines.lab]\nallow = {people = "*"}', "is a list"),
        ('[machines.lab]\nallow = {people = ["powr"]}', "no operation or class 'powr'"),
    ],
)
def test_a_mistake_in_it_is_an_error(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read_policy(written(tmp_path / "policy.toml", text), ME)
    assert caught.value.path == tmp_path / "policy.toml"


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "policy.toml", 0o644)
    with pytest.raises(ConfigError, match="no file"):
        read_policy(tmp_path / "policy.toml", ME)


def test_the_inventory_can_only_take_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = written(
        tmp_path / "policy.toml", '[machines."*"]\nallow = {people = ["input", "power.reset"]}\n'
    )
    monkeypatch.setenv("REFLEXARC_POLICY", str(policy))
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(
        '[machines.a]\ndrivers = ["replay"]\n'
        '[machines.b]\ndrivers = ["replay"]\nallow = {people = ["power", "observe"], agents = ["*"]}\n'
    )
    machines = entries.load(inventory).machines
    assert machines["a"].policy == Policy(("input", "power.reset"), ("observe",))
    assert machines["b"].policy == Policy(("power.reset",), ("*",))


def test_a_user_s_own_file_takes_away_and_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REFLEXARC_POLICY", raising=False)
    before = system_policy().of("lab")
    everything = written(tmp_path / "all.toml", '[machines."*"]\nallow = {people = ["*"], agents = ["*"]}\n')
    monkeypatch.setenv("REFLEXARC_POLICY", str(everything))
    assert system_policy().of("lab") == before
    little = written(
        tmp_path / "little.toml", '[machines."*"]\nallow = {people = ["observe"], agents = []}\n'
    )
    monkeypatch.setenv("REFLEXARC_POLICY", str(little))
    after = system_policy().of("lab")
    assert not covers(after.people, "power.reset")
    assert not covers(after.agents, "observe.frames")
