"""Where the server listens, and to whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflexarc.errors import ConfigError
from reflexarc.mcp.http import application, is_loopback, read_token, serve
from reflexarc.mcp.server import build

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


@pytest.mark.parametrize("token", [None, "short"])
def test_elsewhere_a_token_of_some_length_is_needed(tmp_path: Path, token: str | None) -> None:
    server = build(tmp_path / "reflexarc.toml")
    with pytest.raises(ConfigError, match=r"--token-file|at least 16"):
        application(server, "0.0.0.0", 8765, token)
    assert callable(application(server, "0.0.0.0", 8765, TOKEN))


@pytest.mark.parametrize(
    "address", ["127.0.0.1", ":80", "x:port", "x:-1", "127.0.0.1:0", "127.0.0.1:65536", "\u0661:\u0661"]
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        serve(build(tmp_path / "reflexarc.toml"), address, None, print)


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
