"""`reflexarc playbook`: checking and reading playbooks without running them; no machine is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import click

from reflexarc.cli.main import EXIT_FAILED, EXIT_USAGE
from reflexarc.cli.options import entry_of, inventory_option, json_option, machines_begun
from reflexarc.cli.text import dump, one_line, printable
from reflexarc.errors import PlaybookError
from reflexarc.inventory.places import phase_folders
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.observation import Phases
from reflexarc.playbook.describe import describe_playbook
from reflexarc.playbook.document import Document
from reflexarc.playbook.lint import LintWarning, lint, mistakes
from reflexarc.playbook.loader import load_document, load_file, read_file
from reflexarc.playbook.model import Playbook
from reflexarc.playbook.schema import schema as schema_of
from reflexarc.runs.hostfiles import FIX, misplaced
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.wording import counted

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 1000


@click.group()
def playbook() -> None:
    """Validate, list and show playbooks; print their JSON Schema."""


@playbook.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Exit 1 where there are warnings.")
@click.option(
    "--machine",
    "-m",
    shell_complete=machines_begun,
    help="Also check that this machine may use the files of this host that they name.",
)
@inventory_option
@json_option
def validate(
    files: tuple[Path, ...], strict: bool, machine: str | None, inventory: Path | None, as_json: bool
) -> int:
    """Check FILES and say each mistake and each doubt with its place.

    Exits 2 where a file is no playbook, 1 where one has warnings and --strict is given.
    """
    phases = _phases()
    host = _host(machine, inventory) if machine is not None else None
    checked = [_check(path, phases, host) for path in files]
    if as_json:
        click.echo(dump(checked))
    else:
        for result in checked:
            _show_check(result)
    if not all(result["valid"] for result in checked):
        return EXIT_USAGE
    return EXIT_FAILED if strict and any(result["warnings"] for result in checked) else 0


def _check(path: Path, phases: Phases, host: HostPaths | None) -> dict[str, object]:
    warnings: list[dict[str, object]] = []
    try:
        document = read_file(path)
        errors = mistakes(document, phases)
        doubts: list[LintWarning] = []
        if not errors and host is not None:
            errors, doubts = _misplaced(document, phases, host)
        if not errors:
            warnings = [asdict(warning) for warning in [*lint(document, phases), *doubts]]
    except PlaybookError as error:
        errors = [error]
    wrong = [
        {"message": error.message, "file": error.path, "line": error.line, "column": error.column}
        for error in errors
    ]
    return {"file": str(path), "valid": not errors, "errors": wrong, "warnings": warnings}


def _host(machine: str, inventory: Path | None) -> HostPaths:
    # Loads the drivers.
    from reflexarc.inventory.opening import host_paths

    return host_paths(entry_of(machine, inventory))


def _misplaced(
    document: Document, phases: Phases, host: HostPaths
) -> tuple[list[PlaybookError], list[LintWarning]]:
    """The files that steps name and the machine can't use; of steps that may be skipped they are warnings."""
    loaded = load_document(document, phases)
    errors, doubts = [], []
    for found in misplaced(loaded, host, loaded.defaults):
        error = document.error(("steps", found.index, "args", found.argument), str(found.error))
        if found.sure:
            errors.append(error)
        else:
            place = (error.path, error.line, error.column)
            doubts.append(LintWarning("host-file", error.message, FIX, *place))
    return errors, doubts


def _show_check(result: Mapping[str, object]) -> None:
    file = result["file"]
    for kind in ("errors", "warnings"):
        found = result[kind]
        assert isinstance(found, list)
        for one in found:
            place = ":".join(
                str(part) for part in (one["file"] or file, one["line"], one["column"]) if part is not None
            )
            what = "error" if kind == "errors" else "warning"
            more = f" [{one['code']}]; {one['remedy']}" if kind == "warnings" else ""
            click.echo(printable(f"{place}: {what}: {one['message']}{more}"), err=kind == "errors")
    if result["valid"] and not result["warnings"]:
        click.echo(printable(f"{file}: valid"))


@playbook.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of playbooks (draft 2020-12), with the phases that are known here."""
    click.echo(json.dumps(schema_of(_phases()), indent=1))


@playbook.command("list")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False, exists=True))
@json_option
def list_playbooks(folder: Path, as_json: bool) -> None:
    """List the playbooks of a folder; other YAML and JSON files in it are passed over."""
    rows = list(_rows(folder))
    if as_json:
        click.echo(dump(rows))
        return
    for row in rows:
        what = (
            row["error"] or f"{row['name']}: {counted(int(str(row['steps'])), 'step')}. {row['description']}"
        )
        click.echo(
            f"{one_line(str(row['file'])):<28} {'BAD ' if row['error'] else ''}{one_line(str(what))}".rstrip()
        )


def _rows(folder: Path) -> Iterator[dict[str, object]]:
    phases = _phases()
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    for path in files[:MAX_FILES]:
        row: dict[str, object] = {
            "file": str(path),
            "name": None,
            "description": "",
            "steps": 0,
            "error": None,
        }
        try:
            document = read_file(path)
            if not (isinstance(document.data, Mapping) and "steps" in document.data):
                continue
            loaded = load_document(document, phases)
            row |= {"name": loaded.name, "description": loaded.description, "steps": len(loaded.steps)}
        except PlaybookError as error:
            row["error"] = str(error)
        yield row


@playbook.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show what FILE compiles to: each step, what it waits for and does, and what must be authorised."""
    phases = _phases()
    loaded = load_file(file, phases)
    described = describe_playbook(loaded, phases)
    if as_json:
        click.echo(dump(described))
    else:
        for line in _lines(loaded, described):
            click.echo(printable(line))


def _lines(loaded: Playbook, described: Mapping[str, object]) -> Iterator[str]:
    yield one_line(f"{loaded.name}: {loaded.description}" if loaded.description else loaded.name)
    yield f"needs: {', '.join(sorted(loaded.needs)) or 'nothing'}"
    yield f"asks for: {', '.join(loaded.authorize) or 'nothing destructive'}"
    for variable in loaded.variables.values():
        kind = (
            "a secret"
            if variable.secret
            else "required"
            if variable.required
            else f"default {variable.default!r}"
        )
        yield one_line(f"variable {variable.name}: {kind}. {variable.description}")
    steps = described["steps"]
    assert isinstance(steps, list)
    for step in steps:
        yield ""
        yield f"{step['index'] + 1:>3}. {one_line(str(step['name']))}"
        for key, words in _STEP_LINES.items():
            if step[key] not in (None, {}, []):
                yield f"{words:>18}  {one_line(_spelled(step[key]))}"


_STEP_LINES = {
    "when": "only if",
    "waits_for": "waits for",
    "timeout": "at most, seconds",
    "passing": "passing",
    "action": "does",
    "arguments": "with",
    "operation": "operation",
    "must_be_authorised": "to be authorised",
    "verified_before": "verified before",
    "expects": "expects then",
    "registers": "registers",
}


def _spelled(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part!r}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _phases() -> Phases:
    return load_recognisers(phase_folders()).phases
