"""Driving a run from the command line: watching it, and at a hold waiting for the person or for any process."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from reflexarc.cli.ending import exit_code, show_end, show_escalation
from reflexarc.cli.progress import View
from reflexarc.cli.text import printable
from reflexarc.errors import PlaybookError, RunError
from reflexarc.machine import patch
from reflexarc.playbook import document, needles
from reflexarc.playbook.state import Escalation, Reason
from reflexarc.playbook.words import KINDS
from reflexarc.runs.replies import Reply
from reflexarc.runs.run import Run

_HELP = (
    "r = resume, m FILE = amend, a FILE = act, t PHASE PATTERN = teach, x = abort; "
    "add `+OPERATION` to grant it; Ctrl-C leaves it held"
)


async def drive(run: Run, shown: View, *, as_json: bool, interactive: bool) -> int:
    """Drive the run to its end, or to a hold where no person is there; return the exit code."""
    try:
        while True:
            with shown:
                await run.drive()
            held = run.escalation
            # A lost machine is opened anew by the process that takes the run up again.
            lost = held is not None and held.reason is Reason.CONNECTION_LOST
            if held is None or not interactive or lost:
                return show_end(run, as_json=as_json)
            if not await _answered(run, held):
                return exit_code(run.state)
    finally:
        run.release()


async def _answered(run: Run, held: Escalation) -> bool:
    """Show the escalation and wait until it is answered, here or elsewhere; False where the person leaves it."""
    show_escalation(run.state, held)
    click.echo(f"  {_HELP}")
    loop = asyncio.get_running_loop()
    left = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, left.set)
    leaving = asyncio.ensure_future(left.wait())
    elsewhere = asyncio.ensure_future(run.wait_for_reply())
    try:
        while run.escalation is not None:
            typed = asyncio.ensure_future(_line())
            waits: set[asyncio.Future[Any]] = {typed, elsewhere, leaving}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if typed.done() and (line := typed.result()) is not None:
                _reply(run, line)
                continue
            typed.cancel()
            if elsewhere.done():
                elsewhere.result()
                click.echo("  answered by another process")
                return True
            click.echo(f"  run {run.id} stays held")
            return False
        return True
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        elsewhere.cancel()
        leaving.cancel()


def _reply(run: Run, line: str) -> None:
    try:
        run.reply(parse_reply(line), by="terminal")
    except (PlaybookError, RunError, click.UsageError) as error:
        click.echo(f"  not taken: {printable(str(error))}; {_HELP}", err=True)


async def _line() -> str | None:
    """The next line from the terminal, None at its end; cancelling leaves the terminal as it was."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def ready() -> None:
        if not line.done():
            line.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), ready)
    try:
        text = await line
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return text or None


def parse_reply(line: str) -> Reply:
    """A reply as typed at the prompt; raises UsageError or PlaybookError."""
    words = line.split()
    grant = [word[1:] for word in words if word.startswith("+")]
    rest = [word for word in words if not word.startswith("+")]
    letters = {"r": "resume", "m": "amend", "a": "act", "t": "teach", "x": "abort"}
    kind = letters.get(rest[0], rest[0]) if rest else ""
    if kind == "teach":
        # The pattern is what is left of the line, blanks and plus signs too.
        _, phase, pattern = (*line.strip().split(maxsplit=2), "", "")[:3]
        return make_reply(kind, None, phase=phase, text=pattern)
    return make_reply(kind, rest[1] if len(rest) > 1 else None, grant=grant)


def make_reply(
    kind: str,
    file: str | None,
    *,
    resume_at: str | None = None,
    grant: Sequence[str] = (),
    reason: str = "",
    phase: str = "",
    text: str = "",
    needle: Path | None = None,
    element: Mapping[str, object] | None = None,
) -> Reply:
    """A reply from the words of a command; reads the file of an amend, an act or a needle."""
    if kind == "teach":
        if file is not None or not phase or not (text or needle or element):
            raise click.UsageError(
                "teach takes --phase PHASE and --text REGEX, --needle FILE or --element KEY=TEXT"
            )
        png = _picture(needle) if needle else ""
        return Reply("teach", grant=grant, phase=phase, text=text, needle=png, element=element or None)
    if phase or text or needle or element:
        raise click.UsageError("--phase, --text, --needle and --element belong to teach")
    if kind in ("amend", "act") and file is None:
        raise click.UsageError(f"{kind} needs a FILE")
    if kind in ("resume", "abort"):
        return Reply(kind, grant=grant, reason=reason or "aborted by a person" * (kind == "abort"))
    if kind not in ("amend", "act"):
        raise click.UsageError(f"there is no reply {kind!r}; there are {', '.join(KINDS)}")
    data = _read(str(file))
    if kind == "act":
        steps = data.get("steps") if isinstance(data, dict) else data
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise PlaybookError("act needs a list of steps", path=file)
        return Reply("act", steps=steps, grant=grant)
    if not isinstance(data, dict):
        raise PlaybookError("amend needs a playbook", path=file)
    at = (
        int(resume_at) if resume_at is not None and resume_at.isascii() and resume_at.isdigit() else resume_at
    )
    return Reply("amend", playbook=data, resume_at=at, grant=grant)


def _picture(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(patch.MAX_FILE + 1)
    except OSError as error:
        raise PlaybookError(f"can't read the needle: {error.strerror}", path=str(file)) from error


def _read(file: str) -> object:
    try:
        with nullcontext(sys.stdin) if file == "-" else open(file, encoding="utf-8") as source:
            text = source.read(document.MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlaybookError(f"can't read it: {reason}", path=file) from error
    parsed = document.parse(text, file)
    needles.embed(parsed, Path.cwd() if file == "-" else Path(file).parent)
    return parsed.data
