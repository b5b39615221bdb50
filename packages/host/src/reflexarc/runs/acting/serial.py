"""One command on the shell of the serial console, between two marks that only its run can print.

The console echoes what is typed. The marks are typed in two parts that the shell joins: their whole never stands in
the echo, nor in what a shell prints of a command that it traces.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reflexarc.errors import OperationTimeoutError, PlaybookError
from reflexarc.machine.machine import Machine
from reflexarc.observation import Observation
from reflexarc.runs.acting.act import Act, Performed, has_controls
from reflexarc.runs.acting.guest import MAX_OUTPUT, ended
from reflexarc.sensing.serial import without_controls
from reflexarc.sensing.watcher import Watcher

# What a terminal takes as one line. Source: Linux, n_tty.c, N_TTY_BUF_SIZE; the rest is for the marks.
MAX_LINE = 3000


async def run_serial(act: Act) -> Performed:
    """Run a line in a shell of its own on the serial console, and keep what it writes, up to 64 KiB.

    The console has to be at the prompt of a POSIX shell. Raises OperationTimeoutError where the end mark doesn't
    come; the command may still run then.
    """
    command, limit = act.text("command"), act.seconds("timeout")
    said, status, truncated = await run_line(act.machine, act.watcher, command, limit)
    return ended(act, status, {"stdout": said}, truncated=truncated)


async def run_line(machine: Machine, watcher: Watcher, command: str, limit: float) -> tuple[str, int, bool]:
    """Run a line there, as `run_serial` does; its output, its exit status, and whether output is missing."""
    if has_controls(command):
        raise PlaybookError(
            "the command holds control characters, which a console takes for keys; nothing was sent"
        )
    marks = _Marks(secrets.token_hex(8))
    line = marks.around(command)
    if len(line.encode()) > MAX_LINE:
        raise PlaybookError(f"the command is longer than a console takes, {MAX_LINE} bytes; nothing was sent")
    with _hearing(watcher) as heard:
        await machine.console.run(line + "\n")
        found = await _until(watcher, lambda: marks.find(heard()), limit)
        if found is None:
            raise OperationTimeoutError(
                f"no end of the command on its serial console within {limit:g} s; is a shell there, at its prompt?",
                machine=machine.name,
                operation="console.run",
            )
    return found


class _Marks:
    """The lines before and after the output."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._begin = re.compile(rf"^{token}:begin\n", re.MULTILINE)
        self._end = re.compile(rf"\n?^{token}:end:(\d{{1,3}})$", re.MULTILINE)

    def around(self, command: str) -> str:
        """The line to type; the command is in a shell of its own, which can't end the console's."""
        first, second = self._token[:8], self._token[8:]
        mark = rf"printf '\n%s%s:%s\n' {first} {second}"
        return f'{mark} begin; sh -c {shlex.quote(command)} </dev/null; {mark} "end:$?"'

    def find(self, heard: tuple[str, bool]) -> tuple[str, int, bool] | None:
        """Output, exit status and whether output is missing; None while the end has not come."""
        text = without_controls(heard[0])
        end = self._end.search(text)
        if end is None:
            return None
        begin = self._begin.search(text)
        said = text[begin.end() if begin else 0 : end.start()]
        return said[-MAX_OUTPUT:], int(end[1]), begin is None or heard[1] or len(said) > MAX_OUTPUT


async def _until(
    watcher: Watcher, find: Callable[[], tuple[str, int, bool] | None], seconds: float
) -> tuple[str, int, bool] | None:
    deadline = time.monotonic() + seconds
    seen: Observation | None = watcher.latest
    while True:
        found = find()
        left = deadline - time.monotonic()
        if found is not None or left <= 0:
            return found
        seen = await watcher.next(seen, left) or seen


@contextmanager
def _hearing(watcher: Watcher) -> Iterator[Callable[[], tuple[str, bool]]]:
    """Listen beside whoever listens; gives the newest text that came, and whether older text was dropped."""
    before, pieces, dropped = watcher.heard, [""], [False]

    def hear(text: str) -> None:
        whole = pieces[0] + text
        dropped[0] = dropped[0] or len(whole) > 2 * MAX_OUTPUT
        pieces[0] = whole[-2 * MAX_OUTPUT :]
        if before is not None:
            before(text)

    watcher.heard = hear
    try:
        yield lambda: (pieces[0], dropped[0])
    finally:
        watcher.heard = before
