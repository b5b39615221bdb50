"""Setting up clients: the snippet, and files that others' settings are in, too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reflexarc.inventory.places import places
from reflexarc.mcp.token import read_token

FILES = {"claude-code": (".mcp.json", "mcpServers"), "vscode": (".vscode/mcp.json", "servers")}


def install(*arguments: str, given: str = "") -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "reflexarc", "mcp", "install", *arguments],
        input=given, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr


def test_the_snippet_starts_this_very_installation(tmp_path: Path) -> None:
    code, said = install("--inventory", str(tmp_path / "lab.toml"))
    assert code == 0
    assert json.loads(said) == {
        "mcpServers": {
            "reflexarc": {
                "command": sys.executable,
                "args": ["-P", "-m", "reflexarc", "mcp", "--inventory", str(tmp_path / "lab.toml")],
            }
        }
    }


@pytest.mark.parametrize("client", FILES)
def test_it_is_written_once_and_others_are_kept(tmp_path: Path, client: str) -> None:
    name, key = FILES[client]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    before = {key: {"other": {"command": "x"}}, "inputs": [1]}
    path.write_text(json.dumps(before))
    code, said = install(client, "--folder", str(tmp_path), given="n\n")
    assert code == 0
    assert '+    "reflexarc": {' in said
    assert json.loads(path.read_text()) == before
    assert install(client, "--folder", str(tmp_path), given="y\n")[0] == 0
    after = json.loads(path.read_text())
    assert after["inputs"] == [1]
    assert after[key]["other"] == {"command": "x"}
    assert after[key]["reflexarc"]["args"] == ["-P", "-m", "reflexarc", "mcp"]
    assert after[key]["reflexarc"].get("type") == ("stdio" if client == "vscode" else None)
    written = path.read_bytes()
    code, said = install(client, "--folder", str(tmp_path), "--yes")
    assert (code, said) == (
        0,
        f"{path}: {'Claude Code' if client == 'claude-code' else 'VS Code'} knows reflexarc already\n",
    )
    assert path.read_bytes() == written
    assert sorted(p.name for p in path.parent.iterdir() if p.is_file()) == [path.name]


@pytest.mark.parametrize("client", FILES)
def test_a_folder_without_settings_gets_them(tmp_path: Path, client: str) -> None:
    code, _ = install(client, "--folder", str(tmp_path), "--yes")
    assert code == 0
    name, key = FILES[client]
    assert list(json.loads((tmp_path / name).read_text())[key]) == ["reflexarc"]


@pytest.mark.parametrize("text", ["{", "[1]", '{"mcpServers": 3}', "\x00", '"x"', "// c\n{}"])
def test_settings_that_can_not_be_read_are_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    code, said = install("claude-code", "--folder", str(tmp_path), "--yes")
    assert code == 2
    assert ".mcp.json" in said
    assert path.read_text() == text


HELD = {"claude-code": "Bearer ${REFLEXARC_MCP_TOKEN}", "vscode": "Bearer ${input:reflexarc-token}"}


@pytest.mark.parametrize("client", [*FILES, ""])
@pytest.mark.parametrize("given", [False, True])
def test_a_server_that_listens_is_named_and_its_token_written_nowhere(
    tmp_path: Path, client: str, given: bool
) -> None:
    path = tmp_path / FILES.get(client, ("none", ""))[0]
    token = tmp_path / "a token"
    path.parent.mkdir(exist_ok=True)
    if client:
        path.write_text(json.dumps({"inputs": [{"id": "mine"}], "x": 1}))
    more = ["--token-file", str(token)] if given else []
    for _ in range(2):
        code, said = install(*([client, "--yes", "--folder", str(tmp_path)] if client else []),
                             "--http", "127.0.0.1:8765", *more)  # fmt: skip
        assert code == 0
        where = token if given else places().mcp_token
        assert str(where) in said
        assert places().mcp_token.exists() is not given
        assert given or read_token(where) not in said
    settings = json.loads(path.read_text() if client else said[: said.rindex("}") + 1])
    assert settings[FILES.get(client, ("", "mcpServers"))[1]]["reflexarc"] == {
        "type": "http", "url": "http://127.0.0.1:8765/mcp",
        "headers": {"Authorization": HELD.get(client, HELD["claude-code"])},
    }  # fmt: skip
    assert [one["id"] for one in settings.get("inputs", [])] == {
        "claude-code": ["mine"], "vscode": ["mine", "reflexarc-token"], "": [],
    }[client]  # fmt: skip
    assert ("knows reflexarc already" in said) is bool(client)


@pytest.mark.parametrize("address", ["x", "127.0.0.1:", "http://127.0.0.1:1/mcp"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    code, said = install("claude-code", "--folder", str(tmp_path), "--yes", "--http", address)
    assert (code, "HOST:PORT" in said, list(tmp_path.iterdir())) == (2, True, [])
