from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from reflexarc.drivers.agent.config import COMMON, TRANSPORTS, AgentConfig
from reflexarc.drivers.agent.input import NAMES
from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.answering import agent_config
from reflexarc.machine.keys import KEYS

PAGE = (Path(__file__).parents[3] / "docs/agent.md").read_text()
TOKEN = "0123456789abcdef0123456789abcdef"


def parse(folder: Path, /, **table: Any) -> AgentConfig:
    own_vsock = bool(table.pop("own_vsock", False))
    return AgentConfig.parse({"enabled": True, **table}, machine="lab1", folder=folder, own_vsock=own_vsock)


def test_an_empty_table_is_an_agent_that_is_switched_off(tmp_path: Path) -> None:
    config = AgentConfig.parse({}, machine="lab1", folder=tmp_path)
    assert config == AgentConfig()
    assert not config.enabled
    assert not config.pixels


def test_the_machines_own_vsock_is_the_default(tmp_path: Path) -> None:
    config = parse(tmp_path, own_vsock=True)
    assert (config.transport, config.own_vsock, config.port) == ("vsock", True, 2035)
    called = parse(tmp_path, own_vsock=True, transport="reverse", port=7)
    assert (called.transport, called.own_vsock, called.port) == ("reverse", True, 7)
    other = parse(tmp_path, own_vsock=True, transport="vsock", cid=9)
    assert (other.transport, other.cid, other.own_vsock) == ("vsock", 9, False)


def test_tls_is_left_out_on_loopback_only(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    token = {"token": "env:TOKEN", "transport": "tcp"}
    for host, ca, tls in (
        ("127.0.0.1", {}, False),
        ("::1", {}, False),
        ("localhost", {}, False),
        ("127.0.0.1", {"ca": "ca.pem"}, True),
        ("192.0.2.1", {}, True),
        ("lab1.example", {}, True),
        ("localhost.example", {}, True),
    ):
        assert parse(tmp_path, host=host, **ca, **token).tls is tls


def test_paths_are_relative_to_the_inventory(tmp_path: Path) -> None:
    assert parse(tmp_path, transport="unix", path="a.sock").path == tmp_path / "a.sock"
    config = parse(tmp_path, transport="tcp", host="h", token="file:t")
    assert config.token == f"file:{tmp_path / 't'}"


@pytest.mark.parametrize(
    ("table", "key", "problem"),
    [
        ({"enabeld": True}, "enabeld", "did you mean 'enabled'"),
        ({"enabled": "yes"}, "enabled", "must be true or false"),
        ({"pixels": 1}, "pixels", "must be true or false"),
        ({"transport": "vsok"}, "transport", "did you mean 'vsock'"),
        ({}, "cid", "vsock = true"),
        ({"cid": 2}, "cid", "must be from 3"),
        ({"cid": 3, "port": 0}, "port", "must be from 1"),
        (
            {"transport": "tcp", "host": "h", "port": 65536, "token": "env:T"},
            "port",
            "must be from 1 to 65535",
        ),
        ({"transport": "unix"}, "path", "must be a text"),
        ({"transport": "unix", "path": "x" * 200}, "path", "107 bytes"),
        ({"transport": "reverse", "path": "/" + "x" * 102}, "path", "102 bytes"),
        ({"transport": "unix", "path": "a", "port": 1}, "port", "goes with the transport vsock, hybrid, tcp"),
        ({"transport": "hybrid", "path": "a", "cid": 3}, "cid", "goes with the transport vsock"),
        ({"transport": "tcp", "token": "env:T"}, "host", "must be a text"),
        ({"transport": "tcp", "host": "h"}, "token", "over TCP an agent wants one"),
        ({"transport": "tcp", "host": "h", "token": "env:T", "ca": "no.pem"}, "ca", "there is no file"),
        ({"transport": "stdio"}, "command", "is missing"),
        ({"transport": "stdio", "command": "ssh lab1"}, "command", "list of texts"),
        ({"transport": "virtio_serial"}, "path", "must be a text"),
        ({"token": TOKEN}, "token", "never the token"),
        ({"token": "env:"}, "token", "never the token"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(
    tmp_path: Path, table: dict[str, object], key: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(tmp_path, **table)
    assert f"machine 'lab1', agent.{key}: " in str(raised.value)
    assert problem in str(raised.value)
    assert TOKEN not in str(raised.value)


def test_what_is_switched_off_needs_not_be_complete(tmp_path: Path) -> None:
    assert AgentConfig.parse({"transport": "tcp"}, machine="lab1", folder=tmp_path).transport == "tcp"
    with pytest.raises(ConfigError, match="did you mean"):
        AgentConfig.parse({"transprot": "tcp"}, machine="lab1", folder=tmp_path)


def test_a_token_comes_from_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_TOKEN", TOKEN)
    assert parse(tmp_path, cid=3, token="env:AGENT_TOKEN").secret("lab1") == TOKEN
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    assert parse(tmp_path, cid=3, token="file:token").secret("lab1") == TOKEN
    assert parse(tmp_path, cid=3).secret("lab1") is None


def test_a_token_may_be_in_the_keyring(tmp_path: Path) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(OneEntry())
    try:
        assert parse(tmp_path, cid=3, token="keyring:lab1 agent").secret("lab1") == TOKEN
        with pytest.raises(ConfigError, match=r"agent\.token: the keyring has no entry 'other'"):
            parse(tmp_path, cid=3, token="keyring:other").secret("lab1")
    finally:
        keyring.set_keyring(before)


class OneEntry(KeyringBackend):
    """A keyring with the agent's token."""

    priority = 1

    def __init__(self) -> None:
        """Nothing is to be prepared."""

    def get_password(self, service: str, username: str) -> str | None:
        return TOKEN if (service, username) == ("reflexarc", "lab1 agent") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


def test_keys_have_names_on_the_wire_and_no_other_keys_do() -> None:
    assert NAMES.keys() <= KEYS
    assert len(set(NAMES.values())) == len(NAMES) - len(("ctrl_r", "shift_r", "meta_r"))


def test_the_page_tells_of_every_setting_and_no_other() -> None:
    named = re.findall(r"(?s)\n\| key \|.*?\n\n", PAGE)[0].strip().splitlines()[2:]
    keys = {key for row in named for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert keys == {*COMMON, *(key for keys in TRANSPORTS.values() for key in keys)}
    rows = re.findall(r"\n\| `(\w+)` \| ((?:`\w+`(?: \(\d+\))?(?:, )?)+) \|", PAGE)
    told = {name: tuple(re.findall(r"`(\w+)`", settings)) for name, settings in rows if name in TRANSPORTS}
    assert told == TRANSPORTS


def test_the_pages_example_is_taken(tmp_path: Path) -> None:
    example, ready = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    for name in ("lab1.qcow2", "lab1.pem", "desktop.iso", "desktop.squashfs"):
        (tmp_path / name).touch()
    (tmp_path / "ready.toml").write_text(ready)
    (lab,) = entries.load(tmp_path / "ready.toml").machines.values()
    assert (lab.drivers, agent_config(lab).own_vsock) == (("qemu", "agent"), True)
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(example)
    (entry,) = entries.load(inventory).machines.values()
    config = agent_config(entry)
    assert (config.enabled, config.host, config.tls) == (True, "192.0.2.7", True)
