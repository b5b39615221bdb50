"""A command in a guest, to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from reflexarc.errors import ConnectionLostError
from reflexarc.machine.capabilities import Command, Exited, Output
from reflexarc.machine.machine import Machine

Take = Callable[[Output], Awaitable[None]]


async def run_to_end(machine: Machine, command: Command, take: Take) -> int:
    """Run it, hand on what it writes as it comes, and return its exit status.

    Raises ConnectionLostError where its end was never told: it may have ended well, or badly, or go on.
    """
    async with aclosing(machine.shell.run(command)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Exited):
                return piece.status
            await take(piece)
    raise ConnectionLostError(
        "the command's output ended without its exit status; look what became of it",
        machine=machine.name,
        operation="shell.exec",
    )
