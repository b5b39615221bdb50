"""The MCP server: its start, a look at a machine beside kvm-pilot's, what it tells, fifty clients at once.

Prints a table, and as its last line one JSON object. kvm-pilot is installed by `benchmarks/reflex/install`.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.reflex.kvm_pilot import ENVIRONMENT
from mcp import Client, StdioServerParameters
from tests.mcp_lab import http_server

from reflexarc.inventory import entries
from reflexarc.inventory.opening import running_vm, start_vm, stop_vm
from reflexarc.mcp.server import build

STARTS, LOOKS, CLIENTS, SILENT = 7, 60, 50, 5
PEER = """
import importlib, json, sys, time
sys.argv[0] = sys.argv[1]
watcher = importlib.import_module("kvm_pilot_watcher")
driver = watcher.QemuDriver(sys.argv[2])
times = []
for _ in range(int(sys.argv[3]) + 1):
    analyzer = watcher.vision.ScreenAnalyzer(driver, watcher.FreeModel(), ocr_rules=watcher.vision.DEFAULT_OCR_RULES)
    began = time.perf_counter()
    analyzer.classify()
    times.append((time.perf_counter() - began) * 1000)
print(json.dumps(times[1:]))
"""


def summary(times: list[float]) -> dict[str, float]:
    return {
        "median_ms": round(statistics.median(times), 1),
        "p90_ms": round(statistics.quantiles(times, n=10)[-1], 1),
    }


async def timed(call: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    """Milliseconds of each call, the first one left out."""
    found = []
    for _ in range(times + 1):
        began = time.perf_counter()
        await call()
        found.append((time.perf_counter() - began) * 1000)
    return found[1:]


async def starts(inventory: Path) -> dict[str, Any]:
    """From nothing to the list of tools, beside a server of the SDK with one tool and nothing of ours."""
    bare = (
        "from mcp.server.mcpserver import MCPServer\ns = MCPServer('x')\n"
        "@s.tool()\ndef f() -> int: return 1\ns.run()"
    )

    async def listed(arguments: list[str]) -> float:
        began = time.perf_counter()
        target = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with Client(target) as client:
            await client.list_tools()
            return (time.perf_counter() - began) * 1000

    ours, alone, silent = [], [], []
    with agents_that_say_nothing(inventory.parent) as other:
        for _ in range(STARTS):
            ours.append(await listed(["-m", "reflexarc", "mcp", "--inventory", str(inventory)]))
            silent.append(await listed(["-m", "reflexarc", "mcp", "--inventory", str(other)]))
            alone.append(await listed(["-c", bare]))
    ratio = round(statistics.median(ours) / statistics.median(alone), 2)
    return {
        "ours": summary(ours),
        "silent_agents": summary(silent),
        "sdk_alone": summary(alone),
        "ratio": ratio,
    }


@contextmanager
def agents_that_say_nothing(folder: Path) -> Iterator[Path]:
    """An inventory whose agents take connections and never answer."""
    path = folder / "silent.toml"
    names = [f"silent{number}" for number in range(SILENT)]
    agents = (
        f'[machines.{name}]\ndrivers = ["agent"]\n'
        f'agent = {{enabled = true, transport = "unix", path = "{folder}/{name}"}}\n'
        for name in names
    )
    path.write_text("".join(agents))
    with ExitStack() as stack:
        for name in names:
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(folder / name))
            listening.listen(64)
        yield path


async def looks(inventory: Path) -> dict[str, Any]:
    """`observe` on a running VM, on each way; and how much is told."""
    found: dict[str, Any] = {}
    server = build(inventory)
    async with Client(server) as client:
        await client.call_tool("power", {"machine": "lab", "action": "on"})
        await asyncio.sleep(3)

        async def look() -> Any:
            return await client.call_tool("observe", {"machine": "lab"})

        found["in_process"] = summary(await timed(look, LOOKS))
        told = await look()
        found["phase"] = told.structured_content["phase"]
        found["observe_characters"] = len(told.model_dump_json(by_alias=True, exclude_none=True))
        tools = [
            t.model_dump(mode="json", by_alias=True, exclude_none=True)
            for t in (await client.list_tools()).tools
        ]
        found["tool_list_characters"] = len(json.dumps(tools))
    with_stdio = StdioServerParameters(
        command=sys.executable,
        args=["-m", "reflexarc", "mcp", "--inventory", str(inventory)],
        env=dict(os.environ),
    )
    async with Client(with_stdio) as client:
        found["stdio"] = summary(await timed(lambda: client.call_tool("observe", {"machine": "lab"}), LOOKS))
    return found


async def crowd(address: str) -> dict[str, Any]:
    """Clients at once, each of them connected, looking once, gone."""

    async def one() -> float:
        began = time.perf_counter()
        async with Client(address) as client:
            result = await client.call_tool("observe", {"machine": "lab"})
            assert not result.is_error
        return (time.perf_counter() - began) * 1000

    began = time.perf_counter()
    times = await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return {"clients": CLIENTS, "all_s": round(time.perf_counter() - began, 2), **summary(list(times))}


def peer(monitor: Path) -> dict[str, float] | None:
    """kvm-pilot's snapshot and classification of the same screen; None where it isn't installed."""
    python = ENVIRONMENT / "bin/python"
    if not python.exists():
        return None
    folder = Path(__file__).parent / "reflex"
    told = subprocess.run(
        [python, "-P", "-c", f"import sys; sys.path.append({str(folder)!r}){PEER}", "x", monitor, str(LOOKS)],
        check=True, capture_output=True, text=True, env={**os.environ, "OMP_THREAD_LIMIT": "1"},
    )  # fmt: skip
    return summary(json.loads(told.stdout.splitlines()[-1]))


def main() -> None:
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="reflexarc-bench-") as folder:
        os.environ["REFLEXARC_STATE"] = f"{folder}/state"
        inventory = Path(folder) / "reflexarc.toml"
        inventory.write_text(
            '[machines.lab]\ndrivers = ["qemu"]\nallow = {agents = ["observe", "power.on"]}\n'
            'qemu = {memory_mib = 64, accel = "tcg"}\n'
        )
        entry = entries.load(inventory).entry("lab")
        start_vm(entry)
        try:
            figures["start_to_tool_list"] = asyncio.run(starts(inventory))
            figures["observe"] = asyncio.run(looks(inventory))
            with http_server(inventory) as (address, _, _said):
                figures["http"] = asyncio.run(crowd(address))
            vm = running_vm(entry)
            assert vm is not None
            kvm_pilot = peer(vm.monitors[-1])
        finally:
            stop_vm(entry)
    print(json.dumps(figures, indent=1))
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    peers = {"kvm-pilot snapshot and classify": kvm_pilot}
    print(json.dumps({"name": "mcp_server", "figures": figures, "peers": peers, "machine": machine}))


if __name__ == "__main__":
    main()
