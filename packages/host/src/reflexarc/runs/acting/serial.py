"""One command on the shell of the serial console, between two marks that only its run can print.

The console echoes what is typed. The marks are typed in two parts that the shell joins: their whole never stands in
the echo, nor in what a shell prints of a command that it traces.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from reflexarc.errors import OperationRejectedError, OperationTimeoutError, PlaybookError
from reflexarc.machine.machine import Machine
from reflexarc.observation import UNKNOWN, Observation
from reflexarc.runs.acting.act import Act, Performed, has_controls
from reflexarc.runs.acting.guest import MAX_OUTPUT, ended
from reflexarc.sensing.serial import plain, read_serial, without_controls
from reflexarc.sensing.watcher import Watcher

# The least that a shell's own editor takes as one line, and a little less. Source: busybox, FEATURE_EDITING_MAX_LEN.
MAX_LINE = 1000
# What is around a piece of a command on such a line.
_AROUND = 100
MAX_COMMAND = 64 << 10
# Seconds for what stands on the console to be read, and for a shell to answer an empty line.
LOOK, AWAKE = 1.0, 5.0
T = TypeVar("T")
_PROMPTS = frozenset({"shell_prompt", "rescue_shell"})
# Under these a prompt may have come that isn't known, or was written over.
_UNTOLD = frozenset({"", "booting"})


async def run_serial(act: Act) -> Performed:
    """Run a line in a shell of its own on the serial console, and keep what it writes, up to 64 KiB.

    The console has to be at the prompt of a POSIX shell. Raises OperationTimeoutError where the end mark doesn't
    come; the command may still run then.
    """
    command, limit = act.text("command"), act.seconds("timeout")
    if has_controls(command):
        raise PlaybookError(
            "the command holds control characters, which a console takes for keys; nothing was sent"
        )
    said, status, truncated = await run_line(act.machine, act.watcher, command, limit)
    return ended(act, status, {"stdout": said}, truncated=truncated)


async def run_line(machine: Machine, watcher: Watcher, command: str, limit: float) -> tuple[str, int, bool]:
    """Run a command there, as `run_serial` does; its output, its exit status, and whether output is missing.

    What is longer than a line of a console, or has several lines, goes in pieces, each once the one before is there.
    """
    marks = _Marks(secrets.token_hex(8))
    line = marks.around(shlex.quote(command))
    pieces: list[str] = []
    if has_controls(command) or len(line.encode()) > MAX_LINE:
        pieces = list(_pieces(_escaped(command)))
        line = marks.around(f'"$(printf %b "${marks.name}")"') + f"; unset {marks.name}"
    if sum(map(len, pieces)) > MAX_COMMAND:
        raise PlaybookError(f"the command is longer than {MAX_COMMAND} characters; nothing was sent")
    with _hearing(watcher) as heard:
        for number, piece in enumerate(pieces):
            await machine.console.run(marks.adding(piece, number) + "\n")
            if not await _until(watcher, partial(marks.has, number, heard), limit):
                raise _silent(machine, limit)
        await machine.console.run(line + "\n")
        found = await _until(watcher, lambda: marks.find(heard()), limit)
        if found is None:
            raise _silent(machine, limit)
    return found


def _silent(machine: Machine, limit: float) -> OperationTimeoutError:
    return OperationTimeoutError(
        f"no end of the command on its serial console within {limit:g} s; is a shell there, at its prompt?",
        machine=machine.name,
        operation="console.run",
    )


def _escaped(command: str) -> str:
    """A command as `printf %b` takes it, without control characters."""
    return "".join(rf"\0{ord(c):03o}" if c < " " or c == "\x7f" else c for c in command.replace("\\", "\\\\"))


def _pieces(text: str) -> Iterator[str]:
    """The text in quoted pieces, each short enough for a line."""
    piece, size = "", 0
    for character in text:
        took = 5 if character == "'" else len(character.encode())
        if size + took > MAX_LINE - _AROUND:
            yield shlex.quote(piece)
            piece, size = "", 0
        piece, size = piece + character, size + took
    yield shlex.quote(piece)


async def at_prompt(machine: Machine, watcher: Watcher) -> None:
    """Return where a shell is at its prompt; an empty line is typed where what stands there doesn't tell.

    Raises OperationRejectedError, with what is there instead.
    """
    shown = await _until(
        watcher, lambda: _phase(watcher, watcher.latest.serial if watcher.latest else ""), LOOK
    )
    screen = watcher.latest.phase if watcher.latest else UNKNOWN
    if screen == "power_off":
        raise _elsewhere(machine, "it is off; switch it on first")
    if shown in _UNTOLD:
        with _hearing(watcher) as heard:
            await machine.console.run("\n")
            shown = await _until(watcher, lambda: _phase(watcher, heard()[0]), AWAKE)
            if not without_controls(heard()[0]).strip():
                raise _elsewhere(
                    machine,
                    f"nothing answers at its serial console{f', its screen shows {screen}' * (screen != UNKNOWN)}; "
                    "has the guest a shell there (console=ttyS0, and a getty)?",
                )
    if shown == "login_prompt":
        raise _elsewhere(machine, "nobody is logged in at its serial console; log in there first, as root")
    if shown not in _PROMPTS | _UNTOLD:
        raise _elsewhere(
            machine, f"its serial console shows {shown}, no shell's prompt; bring it to one first"
        )


def _phase(watcher: Watcher, text: str) -> str:
    """The phase that a console's text speaks for, empty where it doesn't tell."""
    found = read_serial(watcher.recognisers, plain(text))
    return found.phase if found else ""


def _elsewhere(machine: Machine, problem: str) -> OperationRejectedError:
    return OperationRejectedError(problem, machine=machine.name, operation="console.run", code="no shell")


async def feed_lines(
    machine: Machine, watcher: Watcher, lines: Sequence[str], path: str, limit: float
) -> AsyncIterator[int]:
    """Put lines together in a file of the guest, each once it has said that it has the one before; yield how many.

    What a terminal is typed it keeps for a program in lines of 4,095 bytes; a shell's own editor takes fewer.
    limit: seconds for each. Raises OperationTimeoutError where the guest doesn't take one.
    """
    token = secrets.token_hex(8)
    said = rf"printf '\n%s%s:\n' {token[:8]} {token[8:]}"
    loop = f'while IFS= read -r line && [ "$line" ]; do printf %s "$line" >>{shlex.quote(path)}; {said}; done'
    with _hearing(watcher) as heard:

        def has(count: int) -> bool:
            return without_controls(heard()[0]).count(f"{token}:\n") >= count

        await machine.console.run(f"stty -echo; {said}; {loop}; stty echo\n")
        for number, line in enumerate([*lines, ""]):
            if not await _until(watcher, partial(has, number + 1), limit):
                raise OperationTimeoutError(
                    f"its serial console took line {number} of {len(lines)} and no more; is a shell there?",
                    machine=machine.name,
                    operation="console.run",
                )
            yield number
            await machine.console.run(line + "\n")


class _Marks:
    """The lines before and after the output; name: of the shell's variable for what is longer than a line."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.name = f"r{token[:8]}"
        self._begin = re.compile(rf"^{token}:begin\n", re.MULTILINE)
        self._end = re.compile(rf"\n?^{token}:end:(\d{{1,3}})$", re.MULTILINE)

    def around(self, command: str) -> str:
        """The line to type; the command, one word, is in a shell of its own, which can't end the console's."""
        return f'{self._mark} begin; sh -c {command} </dev/null; {self._mark} "end:$?"'

    def adding(self, piece: str, number: int) -> str:
        """The line that puts a piece behind those before it, and says so."""
        return f"{self.name}=${self.name}{piece}; {self._mark} {number}"

    def has(self, number: int, heard: Callable[[], tuple[str, bool]]) -> bool:
        """Tell whether the shell said that it has this piece."""
        return f"\n{self._token}:{number}\n" in without_controls(heard()[0])

    @property
    def _mark(self) -> str:
        return rf"printf '\n%s%s:%s\n' {self._token[:8]} {self._token[8:]}"

    def find(self, heard: tuple[str, bool]) -> tuple[str, int, bool] | None:
        """Output, exit status and whether output is missing; None while the end has not come."""
        text = without_controls(heard[0])
        end = self._end.search(text)
        if end is None:
            return None
        begin = self._begin.search(text)
        said = text[begin.end() if begin else 0 : end.start()]
        return said[-MAX_OUTPUT:], int(end[1]), begin is None or heard[1] or len(said) > MAX_OUTPUT


async def _until(watcher: Watcher, find: Callable[[], T], seconds: float) -> T:
    """What is found as soon as that is true, or after so many seconds."""
    deadline = time.monotonic() + seconds
    seen: Observation | None = watcher.latest
    while True:
        found = find()
        left = deadline - time.monotonic()
        if found or left <= 0:
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
