"""Setting up clients: the snippet for any of them, and the files of those that keep theirs in the project."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reflexarc.errors import ConfigError


@dataclass(frozen=True)
class Client:
    """A client that reads a JSON file of the project. key: where in it servers stand; kind: each names its type."""

    name: str
    file: str
    key: str
    kind: bool


CLIENTS: Mapping[str, Client] = {
    "claude-code": Client("Claude Code", ".mcp.json", "mcpServers", kind=False),
    "vscode": Client("VS Code", ".vscode/mcp.json", "servers", kind=True),
}


def command(inventory: Path | None) -> list[str]:
    """How this very installation is started as a server."""
    words = [sys.executable, "-m", "reflexarc", "mcp"]
    return words if inventory is None else [*words, "--inventory", str(inventory.absolute())]


def snippet(inventory: Path | None, *, kind: bool = False) -> dict[str, object]:
    """The entry for one server, as nearly every client wants it."""
    first, *rest = command(inventory)
    return {**({"type": "stdio"} if kind else {}), "command": first, "args": rest}


def changed(client: Client, folder: Path, inventory: Path | None) -> tuple[Path, str, str]:
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
    data[client.key] = {**servers, "reflexarc": snippet(inventory, kind=client.kind)}
    after = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return path, before, before if json.loads(before or "null") == data else after


def diff(path: Path, before: str, after: str) -> str:
    """What is to change, as a unified diff; empty where nothing is."""
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
