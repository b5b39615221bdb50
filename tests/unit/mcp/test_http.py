"""Where the server listens, and with which token."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reflexarc.errors import ConfigError
from reflexarc.inventory.places import places
from reflexarc.mcp.address import is_loopback
from reflexarc.mcp.http import serve
from reflexarc.mcp.server import build
from reflexarc.mcp.token import own_token_file, read_token

TOKEN = "a-token-of-more-than-sixteen"


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("localhost", True), ("[::1]", True), ("::1", True),
        ("0.0.0.0", False), ("::", False), ("192.168.0.1", False), ("localhost.evil.example", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_loopback(host: str, only_here: bool) -> None:
    assert is_loopback(host) is only_here


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "lab.example"])
def test_elsewhere_a_token_file_must_be_named(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="--token-file"):
        serve(build(tmp_path / "reflexarc.toml"), f"{host}:8765", None, print)
    assert not places().mcp_token.exists()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", ":80", "x:port", "x:-1", "127.0.0.1:0", "127.0.0.1:65536", "\u0661:\u0661"]
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        serve(build(tmp_path / "reflexarc.toml"), address, None, print)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "192.0.2.1", "no-such-host.invalid"])
def test_where_it_can_not_listen_it_says_so_and_no_address(tmp_path: Path, host: str) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"{host}:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"can't listen on .*; take another port"):
            serve(build(tmp_path / "reflexarc.toml"), address, token, said.append)
    assert said == []


def test_a_port_in_use_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = subprocess.run(
            [sys.executable, "-m", "reflexarc", "mcp", "--http", address],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"can't listen on {address}: Address already in use" in ran.stderr
    assert "http://" not in ran.stderr


def test_a_token_that_others_can_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(ConfigError, match="can't read the token"):
        read_token(path)
    path.write_text(TOKEN + "\n")
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    for text, words in (("short\n", "at least 16"), ("", "at least 16"), ("\u00e9" * 20, "can't read")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=words):
            read_token(path)


@pytest.mark.parametrize("mask", [0, 0o077])
def test_the_users_own_token_is_made_once_and_private(mask: int) -> None:
    before = os.umask(mask)
    try:
        with ThreadPoolExecutor(8) as pool:
            paths = set(pool.map(lambda _: own_token_file(), range(32)))
    finally:
        os.umask(before)
    (path,) = paths
    assert path == places().mcp_token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(read_token(path)) >= 40
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    kept = path.read_text()
    assert own_token_file().read_text() == kept


def test_a_token_that_can_not_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match=r"can't make a token: .*--token-file"):
        own_token_file()
