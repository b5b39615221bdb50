"""`reflexarc exec` and `reflexarc cp`: commands and files inside of a guest."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from reflexarc.cli.options import Seconds, call, entry_of, inventory_option, machine_argument, pairs
from reflexarc.cli.text import is_terminal, printable
from reflexarc.errors import ConfigError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.machine.capabilities import Command, Output, Stream
from reflexarc.machine.hostpaths import settled
from reflexarc.runs.commands import run_to_end
from reflexarc.runs.copying import Told, fetch, pieces
from reflexarc.runs.session import Session


class _Execute(click.Command):
    """Says where a command's own options go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            advice = "What is the command's goes after `--`: reflexarc exec MACHINE -- COMMAND."
            raise click.UsageError(f"{error.format_message()} {advice}", ctx) from None


@click.command("exec", cls=_Execute)
@machine_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--shell", is_flag=True, help="A line for the account's shell, not a program and its arguments."
)
@click.option("--cwd", help="The folder it runs in.")
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of its environment."
)
@click.option("--timeout", type=Seconds(0.1, 1e6), help="Seconds after which the guest ends it.")
@inventory_option
def execute(
    machine: str,
    command: Sequence[str],
    shell: bool,
    cwd: str | None,
    variables: tuple[str, ...],
    timeout: float | None,
    inventory: Path | None,
) -> int:
    """Run COMMAND in the guest, after `--`: its output as it comes, and its exit status as ours."""
    wanted = Command(
        line=" ".join(command) if shell else "",
        argv=() if shell else tuple(command),
        cwd=cwd,
        env=pairs(variables, "--env"),
        timeout=timeout,
    )
    return call(_execute(entry_of(machine, inventory), wanted))


async def _execute(entry: Entry, command: Command) -> int:
    shown = {Stream.STDOUT: _Shown(sys.stdout), Stream.STDERR: _Shown(sys.stderr)}
    async with open_session(entry, holder="a single command", launch=False) as session:
        return await run_to_end(session.machine, command, partial(_pass_on, shown))


async def _pass_on(shown: dict[Stream, _Shown], piece: Output) -> None:
    """Write a piece; where nobody reads, an interrupt ends the wait for it all the same."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[OSError | None] = loop.create_future()

    def tell(error: OSError | None) -> None:
        if not written.done():
            written.set_result(error)

    def write() -> None:
        error = None
        try:
            shown[piece.stream].write(piece.data)
        except OSError as found:
            error = found
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, error)

    # The loop waits for its own threads when it ends.
    threading.Thread(target=write, daemon=True).start()
    error = await written
    if isinstance(error, BrokenPipeError):
        raise error
    if error is not None:
        raise ConfigError(
            f"can't write the command's output: {error.strerror}; the command was ended"
        ) from error


class _Shown:
    """A stream of ours: bytes as they are into a file or a pipe, and nothing that a terminal would obey.

    stream: None where the caller closed it; what is for it goes nowhere.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._fd = os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if os.isatty(self._fd) else None

    def write(self, data: bytes) -> None:
        if self._decoder is not None:
            text = self._decoder.decode(data).replace("\r\n", "\n")
            data = printable(text).encode()
        while data:
            data = data[os.write(self._fd, data) :]


@click.command("cp")
@click.argument("source")
@click.argument("target")
@inventory_option
def copy(source: str, target: str, inventory: Path | None) -> None:
    """Copy a file to or from a guest; SOURCE or TARGET is MACHINE:PATH."""
    there, here = _remote(source), _remote(target)
    if (there is None) is (here is None):
        raise click.UsageError(
            "one of the two is MACHINE:PATH, the other a path of this host; ./a:b is one, too"
        )
    if there is not None:
        machine, path = there
        if not target:
            raise click.UsageError("TARGET is empty; . is the folder that you are in")
        if target.endswith("/") or os.path.isdir(os.path.expanduser(target)):
            target = str(Path(target) / Path(path).name)
        call(_download(entry_of(machine, inventory), path, target))
    elif here is not None:
        machine, path = here
        call(_upload(entry_of(machine, inventory), source, path))


def _remote(name: str) -> tuple[str, str] | None:
    """Machine and path, None for a path of this host."""
    machine, colon, path = name.partition(":")
    if not colon or not machine or "/" in machine:
        return None
    if not path:
        raise click.UsageError(f"{name} names no path; a path in the guest begins with /")
    return machine, path


async def _upload(entry: Entry, source: str, target: str) -> None:
    whole = settled(source)
    if target.endswith("/"):
        target += Path(whole).name
    async with open_session(entry, holder="a single command", launch=False) as session:
        with session.host.open_source(whole, typed=True) as file:
            found = os.fstat(file.fileno())
            mode = 0o755 if found.st_mode & 0o111 else 0o644
            with _progress(Path(whole).name, found.st_size) as told:
                await session.files.write(target, pieces(file, told), mode=mode)
    click.echo(f"{entry.name}:{target}: {found.st_size} bytes", err=True)


async def _download(entry: Entry, source: str, target: str) -> None:
    async with open_session(entry, holder="a single command", launch=False) as session:
        size = await _fetched(session, source, target)
    click.echo(f"{target}: {size} bytes", err=True)


async def _fetched(session: Session, source: str, target: str) -> int:
    path = session.host.target(target, typed=True)
    with _progress(Path(source).name, None) as told:
        return await fetch(session.machine, source, path, told)


@contextmanager
def _progress(name: str, total: int | None) -> Iterator[Told]:
    """A bar on a terminal, nothing elsewhere."""
    if not is_terminal(sys.stderr):
        yield lambda size: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(printable(name)), total=total)
        yield lambda size: progress.update(task, completed=size)
