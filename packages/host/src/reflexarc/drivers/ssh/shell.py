"""Commands over SSH."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial

from reflexarc.drivers.ssh.client import SshClient
from reflexarc.drivers.ssh.process import Running
from reflexarc.drivers.ssh.script import TERMINATE, command_script
from reflexarc.errors import OperationTimeoutError
from reflexarc.machine.capabilities import Command, Exited, Output

OPERATION = "shell.exec"
# Between SIGTERM and SIGKILL when a command's time is over, and what its end may then still take.
KILL_GRACE = 5.0
END_GRACE = 5.0


class SshShell:
    """Runs commands in process groups of their own; implements `Shell`."""

    def __init__(self, client: SshClient) -> None:
        self._client = client

    async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        self._check(command)
        script = partial(command_script, command)
        async with self._client.running(script, OPERATION) as running:
            limit = _Limit(running, command.timeout)
            try:
                async with aclosing(running.outputs()) as outputs:
                    async for output in outputs:
                        yield output
            except GeneratorExit:
                await _ended(running)
                raise
            finally:
                limit.cancel()
            if limit.passed:
                raise OperationTimeoutError(
                    f"the command did not end within {command.timeout:g} s and was ended; give it a longer `timeout`",
                    machine=self._client.machine,
                    operation=OPERATION,
                )
            if running.status is None:
                raise self._client.lost("a command ran", OPERATION)
            yield Exited(running.status)

    def _check(self, command: Command) -> None:
        words = (command.line, *command.argv, command.cwd or "", *command.env, *command.env.values())
        problem = ""
        if not (command.line or command.argv):
            problem = "there is no command"
        elif any("\0" in word for word in words):
            problem = "a command holds no NUL characters"
        else:
            try:
                command_script(command, "")
            except ValueError as error:
                problem = str(error)
        if problem:
            raise self._client.rejected(f"{problem}; nothing was sent", OPERATION, "bad command")


async def _ended(running: Running) -> None:
    """Have the guest end the command's group, and wait a moment until it has."""
    running.close_input()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_GRACE):
            await running.drained()


class _Limit:
    """Ends a command when its time is over: by a signal it can obey, by one it can't, by giving it up."""

    def __init__(self, running: Running, seconds: float | None) -> None:
        self.passed = False
        self._running = running
        self._timer: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._terminate)

    def _terminate(self) -> None:
        self.passed = True
        self._running.tell(TERMINATE)
        self._timer = asyncio.get_running_loop().call_later(KILL_GRACE, self._kill)

    def _kill(self) -> None:
        self._running.close_input()
        self._timer = asyncio.get_running_loop().call_later(END_GRACE, self._running.give_up)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
