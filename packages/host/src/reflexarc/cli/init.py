"""`reflexarc init`: a first inventory."""

from __future__ import annotations

import json
from pathlib import Path

import click

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
        entries.load(file)
    except ConfigError:
        file.unlink()
        raise
    click.echo(f"{file}: a machine {name!r}. Next: reflexarc machines start {name}; reflexarc observe {name}")
