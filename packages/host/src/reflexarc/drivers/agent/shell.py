"""Commands in the guest, each on a connection of its own; implements `Shell`."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from reflexarc.drivers.agent.client import Agent
from reflexarc.drivers.agent.conversation import TIMEOUT, Conversation
from reflexarc.drivers.agent.errors import refused, valid
from reflexarc.errors import ConfigError, OperationTimeoutError
from reflexarc.machine.capabilities import Command, Exited, Output, Stream
from reflexarc_wire.frames import Credit, EndOfInput, Exit, NotStarted, Stderr, Stdout
from reflexarc_wire.replies import Failure
from reflexarc_wire.requests import Exec

OPERATION = "shell.exec"
WINDOW = 1 << 20
"""Bytes of output that may be on their way; a reader that stops holds the command up after so many."""

GRACE = 10.0
"""An agent ends a command by SIGTERM, and 5 s later by SIGKILL."""


class AgentShell:
    """Commands through the agent; grace: seconds beyond a command's own that the agent has to end it."""

    def __init__(self, agent: Agent, *, grace: float = GRACE) -> None:
        self._agent = agent
        self._grace = grace

    async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        request = _request(command)
        async with self._agent.conversation(request, OPERATION) as (conversation, known):
            if known.version < 3:
                request = Exec(command=_composed(command))
            elif conversation.shared:
                request = replace(request, raw=None)
            await self._begin(conversation, request)
            end = None
            if command.timeout is not None:
                end = asyncio.get_running_loop().time() + command.timeout + self._grace
            owed = 0
            while True:
                async with self._before(end, command):
                    frame = await conversation.next(operation=OPERATION)
                match frame:
                    case Stdout(data):
                        yield Output(Stream.STDOUT, data)
                    case Stderr(data):
                        yield Output(Stream.STDERR, data)
                    case Exit():
                        yield self._exited(frame, command)
                        return
                    case NotStarted(words, code):
                        failure = Failure(words, code)
                        raise refused(failure, request, machine=self._agent.machine, operation=OPERATION)
                    case _:
                        continue
                owed += len(data)
                if request.window is not None and owed >= WINDOW // 4:
                    async with self._before(end, command):
                        await conversation.send(Credit(owed), operation=OPERATION)
                    owed = 0

    async def _begin(self, conversation: Conversation, request: Exec) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                await conversation.start(request, operation=OPERATION)
                await conversation.send(EndOfInput(), operation=OPERATION)
        except TimeoutError as error:
            raise self._unanswered("the agent did not take the command") from error

    @asynccontextmanager
    async def _before(self, end: float | None, command: Command) -> AsyncGenerator[None, None]:
        """Raise OperationTimeoutError at the end of a command's time, also where nothing has to be waited for."""
        try:
            async with asyncio.timeout_at(end):
                yield
            if end is not None and asyncio.get_running_loop().time() >= end:
                raise TimeoutError
        except TimeoutError as error:
            raise self._unanswered(f"the command did not end within {command.timeout:g} s") from error

    def _exited(self, frame: Exit, command: Command) -> Exited:
        if frame.timeout:
            raise self._unanswered(f"the command was ended after {command.timeout or 0:g} s")
        return Exited(frame.code)

    def _unanswered(self, problem: str) -> OperationTimeoutError:
        return OperationTimeoutError(
            f"{problem}; look what became of it, or give it a longer timeout",
            machine=self._agent.machine,
            operation=OPERATION,
        )


def _request(command: Command) -> Exec:
    with valid():
        return Exec(
            command=command.line or None,
            argv=None if command.line else command.argv,
            cwd=command.cwd,
            env=dict(command.env) or None,
            timeout=command.timeout,
            window=WINDOW,
            raw=True,
        )


def _composed(command: Command) -> str:
    """The command in one line of a shell, for agents that take nothing else; its time is the host's to keep."""
    words = command.line or shlex.join(command.argv)
    for name in command.env:
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise ConfigError(f"an agent of version 2 can't be asked for a variable of the name {name!r}")
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in command.env.items())
    return exports + (f"cd {shlex.quote(command.cwd)} || exit 1; " if command.cwd else "") + words
