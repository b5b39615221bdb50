"""`reflexarc agent`: the agent as one file, and putting it into a guest."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path

import click

from reflexarc.cli.options import call, entry_of, inventory_option, json_option, machine_argument
from reflexarc.cli.text import dump, one_line
from reflexarc.errors import ConnectError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.runs import archive, installing

# Whose capabilities each way takes, where several drivers lend the same.
_WAYS = ("ssh", "exec", "console")
_DRIVERS = {"ssh": "ssh", "console": "qemu"}
_SSH_OPTIONS = {
    "config": "-F {}", "port": "-p {}", "user": "-l {}", "identity_file": "-i {}", "jump": "-J {}",
    "known_hosts": "-o UserKnownHostsFile={}",
}  # fmt: skip
_HIDDEN = {"ssh": (), "exec": ("ssh",), "console": ("ssh", "agent")}


@click.group()
def agent() -> None:
    """Build the agent for inside of a guest, and put it there."""


@agent.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path(installing.NAME))
@json_option
def build(file: Path, as_json: bool) -> None:
    """Write the agent to one FILE that any Python from 3.9 on runs."""
    size = archive.build(file.absolute())
    click.echo(dump({"file": str(file), "size": size}) if as_json else f"{file}: {size} bytes")


@agent.command()
@machine_argument
@click.argument("options", nargs=-1)
@click.option(
    "--via", type=click.Choice(_WAYS), help="How to get in (default: the first that its drivers offer)."
)
@click.option(
    "--user/--system", "user", default=False, help="For the account that is in, or the guest (default)."
)
@click.option("--desktop", is_flag=True, help="With --system: serve the desktop at the screen, too.")
@click.option("--vsock", is_flag=True, help="Have it listen on vsock (the default).")
@click.option("--virtio-serial", metavar="NAME", help="Have it serve a virtio-serial port.")
@click.option("--unix", metavar="PATH", help="Have it listen on a unix socket of the guest.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; send nothing.")
@json_option
@inventory_option
def install(
    machine: str,
    options: tuple[str, ...],
    via: str | None,
    user: bool,
    desktop: bool,
    vsock: bool,
    virtio_serial: str | None,
    unix: str | None,
    dry_run: bool,
    as_json: bool,
    inventory: Path | None,
) -> None:
    """Put the agent into a guest and start it, there and whenever the guest starts.

    OPTIONS, after `--`, are further ones of the agent itself: see `reflexarc-agent.pyz --help`. The guest needs
    Python 3.9 or newer. By the console it needs root's shell there, at its prompt.
    """
    if user and desktop:
        raise click.UsageError("--desktop goes with --system; with --user the desktop is served anyway")
    entry = entry_of(machine, inventory)
    way = via or _way(entry)
    if _DRIVERS.get(way) not in (None, *entry.drivers):
        driver = _DRIVERS[way]
        raise click.UsageError(
            f"--via {way}: {machine} has no {driver} among its `drivers`; add it, and its table, to {entry.source}"
        )
    chosen = _chosen(vsock=vsock, virtio_serial=virtio_serial, unix=unix, options=options)
    plan = installing.Plan(_archive(), system=not user, options=chosen, desktop=desktop)
    advice = _advice(entry, plan)
    if dry_run:
        done: dict[str, object] = {"installed": False, "size": len(plan.archive)}
        click.echo(
            f"{machine}: would copy {len(plan.archive)} bytes by {way}, and run `install {plan.install_options}`",
            err=as_json,
        )
    else:
        found = call(_install(entry, way, plan))
        done = {"installed": True, **asdict(found)}
        what = "installed" if found.copied else "was there, started anew"
        click.echo(f"{machine}: {one_line(found.path)} {what}, started by {found.started_by}", err=as_json)
    if as_json:
        click.echo(
            dump({"machine": machine, "via": way, "options": list(chosen), "inventory": advice, **done})
        )
    else:
        click.echo(f"in {entry.source}:\n\n{advice}")


async def _install(entry: Entry, way: str, plan: installing.Plan) -> installing.Installed:
    def tell(text: str) -> None:
        click.echo(f"{entry.name}: {text}", err=True)

    drivers = tuple(driver for driver in entry.drivers if driver not in _HIDDEN[way])
    async with open_session(
        replace(entry, drivers=("ssh",) if way == "ssh" else drivers), holder="agent install", launch=False
    ) as session:
        inside: installing.Inside
        if way == "console":
            inside = installing.ByConsole(session.machine, session.watcher)
        else:
            inside = installing.ByCommands(session.machine)
        try:
            return await installing.install(inside, entry.name, plan, tell)
        except ConnectError:
            if way == "exec":
                tell("there is no agent yet to bring this one in: name the driver ssh, or use --via console")
            raise


def _way(entry: Entry) -> str:
    if "ssh" in entry.drivers:
        return "ssh"
    return "console" if set(entry.drivers) <= {"qemu"} else "exec"


def _chosen(
    *, vsock: bool, virtio_serial: str | None, unix: str | None, options: tuple[str, ...]
) -> tuple[str, ...]:
    """The agent's options, by which hosts reach it."""
    given = (("--virtio-serial", virtio_serial), ("--unix", unix))
    named = (*(word for option, value in given if value is not None for word in (option, value)), *options)
    for option, value in zip_longest(named, named[1:], fillvalue=""):
        if option in ("--virtio-serial", "--unix") and (not value or value.startswith("-")):
            raise click.UsageError(
                f"{option} takes a {'PATH' if option == '--unix' else 'NAME'}, not {value!r}"
            )
    return ("--vsock", *named) if vsock or not named else named


def _archive() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / installing.NAME
        archive.build(file)
        return file.read_bytes()


def _advice(entry: Entry, plan: installing.Plan) -> str:
    """What to write into the inventory, so that the agent is used."""
    drivers = [driver for driver in entry.drivers if driver != "agent"]
    # It goes before the slower way in, and behind the device.
    drivers.insert(drivers.index("ssh") if "ssh" in drivers else len(drivers), "agent")
    lines = [f"[machines.{entry.name}]", f"drivers = {dump(drivers)}"]
    if "--vsock" in plan.options and "qemu" in drivers:
        lines += [f"[machines.{entry.name}.qemu]", "vsock = true"]
    return "\n".join([*lines, f"[machines.{entry.name}.agent]", "enabled = true", *_transport(entry, plan)])


def _ssh(entry: Entry) -> list[str]:
    """OpenSSH's command line to the machine, as the driver ssh would go there."""
    table = entry.settings.get("ssh", {})
    words = ["ssh", "-T", "-o", "BatchMode=yes"]
    for key, option in _SSH_OPTIONS.items():
        if key in table:
            value = str(table[key])
            if key in ("config", "identity_file", "known_hosts"):
                value = os.path.join(entry.source.parent.absolute(), os.path.expanduser(value))
            words += [part.format(value) for part in option.split()]
    return [*words, str(table.get("host", "..."))]


def _transport(entry: Entry, plan: installing.Plan) -> list[str]:
    if "--vsock" in plan.options and "qemu" in entry.drivers:
        return ['transport = "vsock"']
    if "--vsock" in plan.options and "ssh" in entry.drivers:
        command = [*_ssh(entry), f"python3 {plan.place} --stdio"]
        return [
            'transport = "stdio"',
            f"command = {dump(command)}",
            '# or, for a guest of this host that has a vsock: transport = "vsock" and cid = its number',
        ]
    if "--vsock" in plan.options:
        return ['transport = "vsock"', "cid = ...   # the guest's number"]
    if "--virtio-serial" in plan.options:
        return ['transport = "virtio_serial"', 'path = "..."   # the socket of that port on this host']
    if "--unix" in plan.options:
        path = plan.options[list(plan.options).index("--unix") + 1]
        return ['transport = "unix"', f"path = {dump(path)}   # where this host has that socket"]
    return ["# transport and what goes with it: see docs/agent.md"]
