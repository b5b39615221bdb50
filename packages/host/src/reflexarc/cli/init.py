"""`reflexarc init`: a first inventory."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from reflexarc.cli.options import call
from reflexarc.cli.text import called, one_line, pasteable
from reflexarc.errors import ConfigError
from reflexarc.inventory import entries

_TEMPLATE = """\
# The machines that reflexarc may drive. `reflexarc machines list` shows them.

[machines.{name}]
drivers = ["qemu"]                       # the order in which capabilities are taken
keymap = "us"
allow = {{people = ["*"], agents = ["observe"]}}

[machines.{name}.qemu]
memory_mib = 1024
{images}"""


@click.command()
@click.argument("name", default="lab1")
@click.option("--disk", type=click.Path(path_type=Path, dir_okay=False), help="Disk image (qcow2 or raw).")
@click.option("--cdrom", type=click.Path(path_type=Path, dir_okay=False), help="ISO image.")
@click.option("--file", type=click.Path(path_type=Path), default=entries.FILE_NAME, show_default=True)
def init(name: str, disk: Path | None, cdrom: Path | None, file: Path) -> None:
    """Write an inventory with one QEMU machine; an existing file is left alone."""
    images = [
        f"{key} = {json.dumps(str(path))}" if path else f'# {key} = "{example}"'
        for key, path, example in (("disk", disk, "lab1.qcow2"), ("cdrom", cdrom, "installer.iso"))
    ]
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(_TEMPLATE.format(name=name, images="\n".join(images) + "\n"))
    except FileExistsError:
        raise ConfigError(
            "there is an inventory already; add to it, or name another --file", path=file
        ) from None
    except OSError as error:
        raise ConfigError(f"can't write the inventory: {error.strerror}", path=file) from error
    try:
        entry = entries.load(file).entry(name)
    except ConfigError:
        file.unlink()
        raise
    click.echo(f"{file}: a machine {name!r}")
    _warn(entry)
    where = "" if file == Path(entries.FILE_NAME) else f" --inventory {shlex.quote(str(file))}"
    for command, meaning in (
        (f"doctor {name}", "what is missing for it"),
        (f"machines start {name}", "have it there, switched off; stop ends it"),
        (f"power {name} on", "switch it on"),
        (f"watch {name}", "each phase as it enters it"),
        (f"run PLAYBOOK.yaml -m {name}", "a playbook, see docs/playbook-format.md"),
    ):
        click.echo(f"  {called()} {command + where:<{26 + len(where)}}  # {meaning}")


def _warn(entry: entries.Entry) -> None:
    """Say, to standard error, what stands in the way of the machine that was written."""
    # Loads the drivers.
    from reflexarc.inventory.examining import machine_findings

    for finding in call(machine_findings(entry)):
        if not finding.ok:
            click.echo(f"  {finding.severity}: {finding.check}: {one_line(finding.detail)}", err=True)
            click.echo(f"    fix: {pasteable(one_line(finding.fix))}", err=True)
    settings = entry.settings["qemu"]
    if not {"disk", "cdrom"} & settings.keys():
        click.echo(
            f"  warning: it has neither disk nor cdrom, so there is nothing to start from: add one to {entry.source}",
            err=True,
        )
