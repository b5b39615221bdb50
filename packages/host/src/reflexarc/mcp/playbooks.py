"""The tool `playbooks`: what there is to run, checked and shown; only files below the inventory's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError, PlaybookError
from reflexarc.inventory.places import config_folder, phase_folders
from reflexarc.mcp.results import result
from reflexarc.observation import Phases
from reflexarc.playbook.describe import describe_playbook
from reflexarc.playbook.document import Document, of_data, parse
from reflexarc.playbook.lint import lint, mistakes
from reflexarc.playbook.loader import load_file, read_file
from reflexarc.playbook.schema import schema
from reflexarc.sensing.recognise import load_recognisers

SUFFIXES = (".yaml", ".yml", ".json")
MAX_LISTED, MAX_FILES = 200, 2_000
MAX_SIZE = 4_000_000


def folders(inventory: Path) -> list[Path]:
    """Where playbooks are that agents may name: beside the inventory, and the user's own."""
    beside = inventory.absolute().parent
    return [
        folder for folder in (beside, beside / "playbooks", config_folder() / "playbooks") if folder.is_dir()
    ]


def find(name: str, inventory: Path) -> Path:
    """The file of a playbook, by its path or its name; raises ConfigError for one outside of the folders."""
    allowed = folders(inventory)
    for folder in allowed if name and "\0" not in name else ():
        for candidate in (folder / name, *(folder / f"{name}{suffix}" for suffix in SUFFIXES)):
            with suppress(OSError, RuntimeError):  # a name too long, links in a circle
                path = candidate.resolve()
                if _is_playbook(path, allowed):
                    return path
    where = ", ".join(map(str, allowed)) or "no folder"
    raise ConfigError(f"there is no playbook {name[:200]!r} in {where}; `playbooks` lists what there is")


def _is_playbook(path: Path, allowed: list[Path]) -> bool:
    """Tell whether a file lies in one of the folders and has steps; nothing is told of others."""
    if path.suffix not in SUFFIXES or not any(path.parent == folder.resolve() for folder in allowed):
        return False
    if not path.is_file() or path.stat().st_size > MAX_SIZE:
        return False
    return "steps" in path.read_text(encoding="utf-8", errors="replace")


def listed(inventory: Path) -> CallToolResult:
    """The playbooks there are."""
    rows = list(_rows(inventory, _phases()))[:MAX_LISTED]
    lines = [f"{row['name']} ({row['file']}): {row['description']}".rstrip(": ") for row in rows]
    return result("\n".join(lines) or "There is no playbook.", {"playbooks": rows})


def _rows(inventory: Path, phases: Phases) -> Iterator[dict[str, object]]:
    for folder in folders(inventory):
        for path in sorted(folder.iterdir())[:MAX_FILES]:
            try:
                loaded = load_file(find(path.name, inventory), phases)
            except (ConfigError, PlaybookError):
                continue
            yield {"name": loaded.name, "file": str(path), "description": loaded.description,
                   "steps": len(loaded.steps)}  # fmt: skip


def shown(name: str, inventory: Path) -> CallToolResult:
    """A playbook's steps, variables and what it needs."""
    phases = _phases()
    described = describe_playbook(load_file(find(name, inventory), phases), phases)
    return result(f"The playbook {name} is in the values.", {"playbook": described})


def validated(playbook: str | Mapping[str, object], inventory: Path) -> CallToolResult:
    """Every mistake of a playbook with its place, and what bites in practice."""
    phases = _phases()
    warnings: list[dict[str, object]] = []
    try:
        document = _document(playbook, inventory)
        errors = [str(error) for error in mistakes(document, phases)]
        if not errors:
            warnings = [
                {"message": warning.message, "code": warning.code} for warning in lint(document, phases)
            ]
    except PlaybookError as error:
        errors = [str(error)]
    words = "\n".join([*errors, *(f"warning: {warning['message']}" for warning in warnings)])
    return result(words or "It is valid.", {"valid": not errors, "errors": errors, "warnings": warnings})


def schema_shown() -> CallToolResult:
    """The JSON Schema of playbooks."""
    return result("The JSON Schema of playbooks is in the values.", {"schema": schema(_phases())})


def _document(playbook: str | Mapping[str, object], inventory: Path) -> Document:
    if isinstance(playbook, Mapping):
        return of_data(dict(playbook), "playbook")
    if "\n" in playbook:
        return parse(playbook, "playbook")
    return read_file(find(playbook, inventory))


def _phases() -> Phases:
    return load_recognisers(phase_folders()).phases


def data(playbook: str | Mapping[str, object], inventory: Path) -> Mapping[str, object]:
    """A playbook as plain data; raises PlaybookError where it is none."""
    if isinstance(playbook, Mapping):
        return playbook
    found = _document(playbook, inventory).data
    if not isinstance(found, Mapping):
        raise PlaybookError("a playbook is a mapping with a name and steps")
    return found
