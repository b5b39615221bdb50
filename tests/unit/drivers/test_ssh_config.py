"""The `ssh` table, the leases, and how ssh is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflexarc.drivers.ssh.client import SshClient, one_line
from reflexarc.drivers.ssh.config import SshConfig
from reflexarc.drivers.ssh.leases import leased_address
from reflexarc.errors import ConfigError


def parsed(folder: Path, **table: object) -> SshConfig:
    return SshConfig.parse(table, machine="lab1", folder=folder)


def test_what_is_given_is_taken(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    config = parsed(
        tmp_path, host="lab", port=2222, user="root", identity_file="key", jump="me@gate:22", pixels=True
    )
    assert config == SshConfig(
        host="lab", port=2222, user="root", identity_file=tmp_path / "key", jump="me@gate:22", pixels=True
    )


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "ssh.host: is missing"),
        ({"host": "a", "lease": "b"}, "remove one of them"),
        ({"host": "-oProxyCommand=x"}, "without user and port"),
        ({"host": "a;reboot"}, "without user and port"),
        ({"host": "user@a"}, "without user and port"),
        ({"host": "a", "port": 0}, "from 1 to 65535"),
        ({"host": "a", "port": "22"}, "whole number"),
        ({"host": "a", "user": "-x"}, "name of an account"),
        ({"host": "a", "user": "$(id)"}, "name of an account"),
        ({"host": "a", "jump": "-x"}, "a host to go through"),
        ({"host": "a", "identity_file": "nowhere"}, "there is no file"),
        ({"host": "a", "known_hosts": "nowhere"}, "there is no file"),
        ({"host": "a", "identity_file": "100%"}, "rename it"),
        ({"host": "a", "display": "localhost:10.0"}, 'such as ":0"'),
        ({"host": "a", "pixels": 1}, "true or false"),
        ({"host": "a", "usr": "x"}, "did you mean 'user'"),
    ],
)
def test_each_mistake_says_what_to_do(tmp_path: Path, table: dict[str, object], told: str) -> None:
    (tmp_path / "100%").touch()
    with pytest.raises(ConfigError) as error:
        parsed(tmp_path, **table)
    assert told in str(error.value)
    assert "machine 'lab1', ssh" in str(error.value)


def test_the_command_line_asks_for_nothing_and_weakens_nothing(tmp_path: Path) -> None:
    (tmp_path / "my hosts").touch()
    config = parsed(tmp_path, host="lab", port=2222, user="me", known_hosts="my hosts", jump="gate")
    arguments = SshClient(config, machine="lab1", folder=tmp_path).arguments("lab")
    assert "BatchMode=yes" in arguments
    assert f'UserKnownHostsFile="{tmp_path}/my hosts"' in arguments
    assert not any("StrictHostKeyChecking" in argument for argument in arguments)
    assert arguments[-8:] == ["-p", "2222", "-l", "me", "-J", "gate", "--", "lab"]


def test_other_settings_have_another_connection(tmp_path: Path) -> None:
    def control(config: SshConfig) -> str:
        return next(
            a for a in SshClient(config, machine="m", folder=tmp_path).arguments("a") if "ControlPath" in a
        )

    assert control(SshConfig("a")) == control(SshConfig("a"))
    assert control(SshConfig("a")) != control(SshConfig("a", user="root"))


LEASES = """
{
	name=builder
	ip_address=192.168.64.3
	hw_address=1,52:54:0:12:34:56
	identifier=1,52:54:0:12:34:56
	lease=0x65a1b2c3
}
{
	name=builder
	ip_address=192.168.64.9
	hw_address=1,52:54:0:12:34:57
	lease=0x65a1b2ff
}
{
	name=hostile
	ip_address=-oProxyCommand=reboot
	hw_address=1,52:54:0:12:34:58
	lease=0x65a1b2ff
}
"""


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        ("52:54:00:12:34:56", "192.168.64.3"),
        ("builder", "192.168.64.9"),
        ("nobody", None),
        ("hostile", None),
    ],
)
def test_a_lease_is_found_by_name_and_by_card(wanted: str, address: str | None) -> None:
    assert leased_address(LEASES, wanted) == address


def test_what_a_guest_says_fits_on_a_line() -> None:
    assert one_line("a\x1b[31m\r\nb\u202e c") == "a [31m b c"
    assert len(one_line("x" * 10_000)) < 400
