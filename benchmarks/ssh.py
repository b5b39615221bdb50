"""A command in a guest: over a new SSH connection, over one that is kept, and by the agent's unix socket.

By turns in one run, against an OpenSSH server and an agent on this host. Prints a table, and as its last line one
JSON object. REFLEXARC_BENCH_ROUNDS sets how many turns are taken (60).
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from tests.agents import Agent, running
from tests.sshd import Server, end_masters, serving

from reflexarc.drivers.ssh.driver import open_driver
from reflexarc.machine.capabilities import Command, Exited, Output, Shell
from reflexarc_wire.frames import Exit
from reflexarc_wire.requests import Exec

ROUNDS = int(os.environ.get("REFLEXARC_BENCH_ROUNDS", "60"))
COLD = 3
MIB = 64
AGENT = "the agent, connection included"
OURS, OURS_ARGV = "our driver, connection kept", "our driver, without a login shell"
NEW, KEPT = "ssh, new connection", "ssh, ControlMaster"

Case = Callable[[], Awaitable[None]]


def plain(server: Server, *options: str) -> list[str]:
    """A person's `ssh` with the same keys."""
    folder = server.folder
    known = ("-o", f"UserKnownHostsFile={folder}/known_hosts", "-o", "BatchMode=yes")
    return [
        "ssh",
        "-F",
        "none",
        "-T",
        *known,
        *options,
        "-i",
        f"{folder}/id",
        "-p",
        str(server.port),
        "127.0.0.1",
    ]


async def by_program(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(*command, "true", stdin=subprocess.DEVNULL)
    assert await process.wait() == 0


async def by_driver(shell: Shell, command: Command) -> int:
    """Run it, and return how many bytes it wrote."""
    size, status = 0, None
    async with aclosing(shell.run(command)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Output):
                size += len(piece.data)
            elif isinstance(piece, Exited):
                status = piece.status
    assert status == 0
    return size


def cases(server: Server, shell: Shell, agent: Agent, master: str) -> dict[str, Case]:
    async def by_agent() -> None:
        assert agent.run(Exec(argv=("true",))).last == Exit(0)

    async def ours() -> None:
        await by_driver(shell, Command(line="true"))

    async def ours_argv() -> None:
        await by_driver(shell, Command(argv=("true",)))

    return {
        AGENT: by_agent,
        OURS: ours,
        OURS_ARGV: ours_argv,
        KEPT: lambda: by_program(plain(server, "-o", f"ControlPath={master}")),
        NEW: lambda: by_program(plain(server, "-o", "ControlPath=none")),
    }


async def taken_by_turns(all_cases: dict[str, Case]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in all_cases}
    for number in range(ROUNDS + COLD):
        for name, case in all_cases.items():
            began = time.perf_counter()
            await case()
            if number >= COLD:
                found[name].append((time.perf_counter() - began) * 1000)
    return found


async def streamed(shell: Shell) -> float:
    """MiB/s of a command's output."""
    began = time.perf_counter()
    assert await by_driver(shell, Command(line=f"head -c {MIB << 20} /dev/zero")) == MIB << 20
    return MIB / (time.perf_counter() - began)


async def streamed_plain(server: Server, master: str) -> float:
    """The same by `ssh` alone."""
    command = [*plain(server, "-o", f"ControlPath={master}"), f"head -c {MIB << 20} /dev/zero"]
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    size = 0
    while data := await process.stdout.read(1 << 16):
        size += len(data)
    assert (await process.wait(), size) == (0, MIB << 20)
    return MIB / (time.perf_counter() - began)


async def measured(folder: Path, server: Server, agent: Agent) -> dict[str, object]:
    master = str(folder / "plain.ctl")
    keep = plain(server, "-o", "ControlMaster=yes", "-o", f"ControlPath={master}", "-o", "ControlPersist=600")
    await by_program(keep)
    try:
        async with open_driver(server.config(), machine="guest", state_dir=folder / "state") as lent:
            assert lent.shell is not None
            times = await taken_by_turns(cases(server, lent.shell, agent, master))
            rates = [(await streamed(lent.shell), await streamed_plain(server, master)) for _ in range(3)]
    finally:
        end_masters(folder / "state")
        await by_program_ended(plain(server, "-o", f"ControlPath={master}", "-O", "exit"))
    medians = {name: statistics.median(found) for name, found in times.items()}
    figures: dict[str, object] = {}
    for name, found in times.items():
        p90 = statistics.quantiles(found, n=10)[-1]
        figures[name] = {"p50_ms": round(medians[name], 2), "p90_ms": round(p90, 2)}
        print(f"{name:<36} p50 {medians[name]:8.2f} ms   p90 {p90:8.2f} ms")
    ours, bare = (statistics.median(each) for each in zip(*rates, strict=True))
    figures["stream"] = {"mib_per_s": round(ours, 1), "ssh_alone_mib_per_s": round(bare, 1)}
    print(f"{'stream, our driver':<36} {ours:8.1f} MiB/s   ssh alone {bare:8.1f} MiB/s")
    figures["agent_faster_than_new"] = round(medians[NEW] / medians[AGENT], 1)
    figures["agent_faster_than_kept"] = round(medians[OURS] / medians[AGENT], 1)
    figures["agent_faster_than_ssh_kept"] = round(medians[KEPT] / medians[AGENT], 1)
    print(
        f"the agent is {figures['agent_faster_than_new']} times as fast as a new connection; over a kept one it is "
        f"{figures['agent_faster_than_kept']} times as fast as our driver, "
        f"{figures['agent_faster_than_ssh_kept']} times as ssh alone"
    )
    return figures


async def by_program_ended(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    await process.wait()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sshd").mkdir()
        with serving(folder / "sshd") as server, running(folder / "agent.sock") as agent:
            figures = asyncio.run(measured(folder, server, agent))
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    print(json.dumps({"name": "ssh", "figures": figures, "machine": machine}))


if __name__ == "__main__":
    main()
