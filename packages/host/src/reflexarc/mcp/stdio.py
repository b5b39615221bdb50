"""The server over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal

from reflexarc.mcp import brief
from reflexarc.mcp.protocol import Server


def serve(server: Server) -> None:
    """Serve one client until it closes its end, or SIGTERM, SIGINT or SIGHUP comes."""
    brief.configure()
    asyncio.run(_serve(server))


async def _serve(server: Server) -> None:
    loop = asyncio.get_running_loop()
    ending: set[asyncio.Task[None]] = set()

    async def end() -> None:
        await server.served.close()
        # The SDK waits for standard input in a thread that nothing wakes.
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: ending.add(loop.create_task(end())))
    await server.run_stdio_async()
