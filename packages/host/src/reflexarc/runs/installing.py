"""Putting the agent into a guest and having it start there, by commands and files or by a serial console."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from shlex import join, quote
from typing import Protocol

from reflexarc.errors import MachineError, OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import Command, Output
from reflexarc.machine.machine import Machine
from reflexarc.runs.acting.serial import at_prompt, feed_lines, run_line
from reflexarc.runs.commands import run_to_end
from reflexarc.sensing.watcher import Watcher

OLDEST_PYTHON = (3, 9)
NAME = "reflexarc-agent.pyz"
TIMEOUT = 60.0
MAX_OUTPUT = 64 << 10
PIECE = 256 << 10
# What a shell's `read` is given at once: a terminal keeps 4,095 bytes of a line for a program.
LINE = 3000
READY = 10.0
RETRY = 1.0
SHOWN = 300

Tell = Callable[[str], None]

_VERSION = (
    "python3 -c 'import sys; "
    f'print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < {OLDEST_PYTHON})\''
)
_HASH = (
    "python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], \"rb\").read()).hexdigest())'"
)
_UNPACK = (
    "python3 -c 'import base64, sys, zlib; "
    'open(sys.argv[2], "wb").write(zlib.decompress(base64.b64decode(open(sys.argv[1]).read())))\''
)


@dataclass(frozen=True)
class Plan:
    """What is to be installed. system: for the whole guest, as root; else for the account that is logged in.

    options: the agent's own, by which hosts reach it. desktop: with `system`, serve the desktop at the screen too.
    """

    archive: bytes
    system: bool
    options: Sequence[str]
    desktop: bool = False

    @property
    def digest(self) -> str:
        return sha256(self.archive).hexdigest()

    @property
    def place(self) -> str:
        """Where the agent puts itself, as a shell reads it."""
        if self.system:
            return f"/usr/local/lib/reflexarc/{NAME}"
        return f'"${{XDG_DATA_HOME:-$HOME/.local/share}}/reflexarc/{NAME}"'

    @property
    def install_options(self) -> str:
        """What follows the agent's `install`."""
        whose = ["--system", *(["--desktop"] if self.desktop else [])] if self.system else ["--user"]
        return join(["--start", *whose, *self.options])

    @property
    def whose(self) -> str:
        return "--system" if self.system else "--user"


@dataclass(frozen=True)
class Installed:
    """What was done. copied: False where the guest had this very agent.

    started_by: `systemd` or, where the guest has none, `itself`.
    """

    path: str
    digest: str
    copied: bool
    started_by: str


class Inside(Protocol):
    """A way into a guest."""

    async def ready(self) -> None:
        """Raises OperationRejectedError where nobody is there to run anything."""
        ...

    async def run(self, line: str, timeout: float = TIMEOUT) -> tuple[int, str]:
        """Run a line in a shell; its exit status and what it wrote, up to 64 KiB."""
        ...

    async def put(self, data: bytes, path: str, tell: Tell) -> None:
        """Make a file."""
        ...


class ByCommands:
    """By a machine's shell and files."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def ready(self) -> None:
        """The first command tells."""

    async def run(self, line: str, timeout: float = TIMEOUT) -> tuple[int, str]:
        said = bytearray()

        async def take(piece: Output) -> None:
            said.extend(piece.data[: MAX_OUTPUT - len(said)])

        command = Command(argv=("/bin/sh", "-c", f"exec 2>&1; {line}"), timeout=timeout)
        status = await run_to_end(self._machine, command, take)
        return status, said.decode(errors="replace")

    async def put(self, data: bytes, path: str, tell: Tell) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(data), PIECE):
                yield data[start : start + PIECE]

        await self._machine.files.write(path, pieces(), mode=0o600)


class ByConsole:
    """By the shell at a machine's serial console, line by line."""

    def __init__(self, machine: Machine, watcher: Watcher) -> None:
        self._machine = machine
        self._watcher = watcher

    async def ready(self) -> None:
        await at_prompt(self._machine, self._watcher)
        await self.run("true", READY)

    async def run(self, line: str, timeout: float = TIMEOUT) -> tuple[int, str]:
        said, status, _ = await run_line(self._machine, self._watcher, line, timeout)
        return status, said

    async def put(self, data: bytes, path: str, tell: Tell) -> None:
        text = base64.b64encode(zlib.compress(data, 9)).decode()
        lines = [text[start : start + LINE] for start in range(0, len(text), LINE)]
        packed = f"{path}.b64"
        async for number in feed_lines(self._machine, self._watcher, lines, packed, TIMEOUT):
            if number % 10 == 0:
                tell(f"copying by the console, {100 * number // len(lines)} %")
        await _checked(self, self._machine.name, f"{_UNPACK} {quote(packed)} {quote(path)}")


async def install(inside: Inside, machine: str, plan: Plan, tell: Tell) -> Installed:
    """Put the agent into a guest and start it; done again it changes nothing but that the agent starts anew.

    Raises OperationRejectedError where nobody is there, before anything is copied where the guest has no Python for it
    or its whole is asked for by who isn't root, or where the agent doesn't start.
    """
    tell("looking for Python in the guest")
    await inside.ready()
    await _need_python(inside, machine)
    if plan.system:
        await _need_root(inside, machine)
    path = (await _checked(inside, machine, f"printf %s {plan.place}")).strip()
    copied = await _digest(inside, path) != plan.digest
    if copied:
        tell(f"copying {len(plan.archive)} bytes")
        folder = (await _checked(inside, machine, "umask 077; mktemp -d")).strip()
        source = f"{folder}/{NAME}"
        try:
            await inside.put(plan.archive, source, tell)
            if await _digest(inside, source) != plan.digest:
                raise _rejected(machine, "the agent arrived spoilt in the guest; try it again", "spoilt")
            tell("installing")
            said = await _checked(inside, machine, f"python3 {quote(source)} install {plan.install_options}")
        finally:
            await inside.run(f"rm -rf {quote(folder)}")
    else:
        tell("this agent is there already; installing it anew")
        said = await _checked(inside, machine, f"python3 {quote(path)} install {plan.install_options}")
    told = re.search(r"^(?:started|starting anew (?P<before>\d+)) by (?P<by>\w+)\s*\Z", said, re.MULTILINE)
    if told is None:
        raise _rejected(machine, "the agent is installed, and doesn't say that it runs", "not started", said)
    if told["before"]:
        tell("the agent itself did this; waiting for it to start anew")
        await _anew(inside, machine, f"python3 {quote(path)} status {plan.whose}", told["before"])
    return Installed(path, plan.digest, copied, told["by"])


async def _anew(inside: Inside, machine: str, status: str, before: str) -> None:
    """Return once another process than before is the agent."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        with suppress(MachineError):
            code, said = await inside.run(status)
            if code == 0 and said.strip() != f"running {before}":
                return
        await asyncio.sleep(RETRY)
    raise OperationTimeoutError(
        "the agent was installed, and what starts now doesn't answer the way the earlier one did; "
        "correct its table in the inventory (--dry-run shows the lines)",
        machine=machine,
        operation="agent install",
    )


async def _need_python(inside: Inside, machine: str) -> None:
    status, said = await inside.run(_VERSION)
    version = ".".join(map(str, OLDEST_PYTHON))
    if status and re.search(r"^\d+\.\d+$", said.strip()):
        raise _rejected(
            machine, f"the guest's Python is {said.strip()}; the agent needs {version} or newer", "old python"
        )
    if status:
        raise _rejected(
            machine, f"the guest has no python3; install Python {version} or newer in it", "no python", said
        )


async def _need_root(inside: Inside, machine: str) -> None:
    number, _, name = (await _checked(inside, machine, 'echo "$(id -u) $(id -un)"')).strip().partition(" ")
    if number != "0":
        raise _rejected(
            machine,
            f"for the whole guest root has to install it, and who came in is {name[:32] or number[:32]}; "
            "come in as root, or install it for that account with --user",
            "not root",
        )


async def _digest(inside: Inside, path: str) -> str | None:
    """The SHA-256 of a file of the guest, None where it can't be read."""
    status, said = await inside.run(f"{_HASH} {quote(path)} 2>/dev/null")
    return None if status else said.strip()


async def _checked(inside: Inside, machine: str, line: str) -> str:
    status, said = await inside.run(line)
    if status:
        shown = " ".join(said.split())[-SHOWN:] or "it gave no reason"
        raise _rejected(machine, f"the guest refused (status {status}): {shown}", str(status), said)
    return said


def _rejected(machine: str, problem: str, code: str, detail: str = "") -> OperationRejectedError:
    return OperationRejectedError(
        problem, machine=machine, operation="agent install", code=code, detail=detail[-SHOWN:]
    )
