"""Setting up clients: the snippet for any of them, and the files of those that keep theirs in the project."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reflexarc.errors import ConfigError

VARIABLE = "REFLEXARC_MCP_TOKEN"
"""The variable of the client's environment that the token is taken from: it stands in no file of a project."""
_QUESTION = {
    "type": "promptString",
    "id": "reflexarc-token",
    "description": "Token of reflexarc",
    "password": True,
}


@dataclass(frozen=True)
class Client:
    """A client that reads a JSON file of the project. key: where in it servers stand; kind: each names its type.

    asks: it asks its user for secrets, and takes none from its environment.
    """

    name: str
    file: str
    key: str
    kind: bool = False
    asks: bool = False

    def entry(self, inventory: Path | None, address: str | None = None) -> dict[str, object]:
        """The entry for one server: started by the client, or where it listens already."""
        if address is not None:
            return listening(address, f"input:{_QUESTION['id']}" if self.asks else VARIABLE)
        return {**({"type": "stdio"} if self.kind else {}), **started(inventory)}

    def where_the_token_goes(self, path: Path) -> str:
        """What the user does with the token's file, for a server that listens already."""
        if self.asks:
            return f"{self.name} asks for the token, which is in {path}"
        return f"start {self.name} with the token in its environment: export {VARIABLE}=$(cat {shlex.quote(str(path))})"


CLIENTS: Mapping[str, Client] = {
    "claude-code": Client("Claude Code", ".mcp.json", "mcpServers"),
    "vscode": Client("VS Code", ".vscode/mcp.json", "servers", kind=True, asks=True),
}
ANY = Client("the client", "", "mcpServers")


def command(inventory: Path | None) -> list[str]:
    """How this very installation is started as a server; -P: no file of the folder it is started in is run."""
    words = [sys.executable, "-P", "-m", "reflexarc", "mcp"]
    return words if inventory is None else [*words, "--inventory", str(inventory.absolute())]


def started(inventory: Path | None) -> dict[str, object]:
    """The entry for a server that the client starts, as nearly every client wants it."""
    first, *rest = command(inventory)
    return {"command": first, "args": rest}


def listening(address: str, secret: str) -> dict[str, object]:
    """The entry for a server that listens at HOST:PORT. secret: what the client puts the token in for."""
    headers = {"Authorization": f"Bearer ${{{secret}}}"}
    return {"type": "http", "url": f"http://{address}/mcp", "headers": headers}


def changed(
    client: Client, folder: Path, inventory: Path | None, address: str | None = None
) -> tuple[Path, str, str]:
    """The client's file, its text now and what it is to be; other servers and settings in it stay as they are.

    Raises ConfigError where it can't be read, or is no JSON object.
    """
    path = folder / client.file
    try:
        before = path.read_text() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read the settings of {client.name}: {error}", path=path) from error
    try:
        data = json.loads(before) if before.strip() else {}
    except ValueError as error:
        raise ConfigError(
            f"no JSON: {error}; put it right first, or add the snippet by hand", path=path
        ) from error
    servers = data.get(client.key, {}) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f"{client.key} is no object; add the snippet by hand", path=path)
    data[client.key] = {**servers, "reflexarc": client.entry(inventory, address)}
    if client.asks and address is not None:
        data["inputs"] = _with_question(data.get("inputs", []), path)
    after = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return path, before, before if json.loads(before or "null") == data else after


def _with_question(inputs: object, path: Path) -> list[object]:
    """What the client asks its user for, and the token."""
    if not isinstance(inputs, list):
        raise ConfigError("inputs is no list; add the snippet by hand", path=path)
    others = [one for one in inputs if not (isinstance(one, dict) and one.get("id") == _QUESTION["id"])]
    return [*others, _QUESTION]


def diff(path: Path, before: str, after: str) -> str:
    """What is to change, as a unified diff; empty where nothing is."""
    import difflib

    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), str(path), str(path))
    return "".join(lines)


def write(path: Path, text: str) -> None:
    """Put the file in place in one step; raises ConfigError."""
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"can't write it: {error.strerror}", path=path) from error
