"""The cost of watching one machine, in a process that does nothing else: run by the benchmark, prints JSON.

    python -m benchmarks.qemu.watching PROGRAM STATE_DIR SECONDS

It watches an idle text console with a blinking cursor, then one on which a log scrolls.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.machine.capabilities import Capabilities, Console, Screen
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher

LINES_PER_SECOND = 20
SCROLL = (
    "n=0; while [ $n -lt {lines} ]; do echo \"[ $n.123456 ] systemd[1]: Started unit number $n of the log.\" "
    "> /dev/tty1; sleep {pause}; n=$((n+1)); done; echo scrolled\n"
)  # fmt: skip


def memory_mib() -> dict[str, float]:
    """Resident and proportional memory of this process. Source: proc(5), smaps_rollup."""
    found = re.findall(r"^(Rss|Pss):\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return {f"{name.lower()}_mib": round(int(kilobytes) / 1024, 1) for name, kilobytes in found}


async def _cpu_percent(work: asyncio.Future[object] | float) -> float:
    cpu, wall = time.process_time(), time.monotonic()
    if isinstance(work, float):
        await asyncio.sleep(work)
    else:
        await work
    return 100 * (time.process_time() - cpu) / (time.monotonic() - wall)


async def _scroll(console: Console, watcher: Watcher, seconds: float) -> None:
    lines = int(seconds * LINES_PER_SECOND)
    await console.write("clear > /dev/tty1\n" + SCROLL.format(lines=lines, pause=1 / LINES_PER_SECOND))
    await asyncio.sleep(1)
    last = f"unit number {lines - 1} of"
    seen = None
    while seen is None or last not in seen.text:
        seen = await watcher.next(seen, None)


async def _watch(lent: Capabilities, seconds: float) -> dict[str, object]:
    assert lent.screen is not None
    assert lent.console is not None
    screen: Screen = lent.screen
    async with Watcher(lent, Ladder(load_recognisers()), "watched") as watcher:
        await asyncio.sleep(3)
        idle = await _cpu_percent(seconds)
        reads = sum(watcher.reads.values())
        scrolling = await _cpu_percent(asyncio.ensure_future(_scroll(lent.console, watcher, seconds)))
        return {
            "source": screen.source(),
            "idle_cpu_percent": round(idle, 2),
            "scrolling_cpu_percent": round(scrolling, 2),
            "scrolling_reads": sum(watcher.reads.values()) - reads,
            **memory_mib(),
        }


async def _main(program: str, state_dir: str, seconds: float) -> None:
    config = QemuConfig(binary=program, memory_mib=512, accel="tcg")
    async with open_driver(config, machine="watched", state_dir=Path(state_dir)) as lent:
        print(json.dumps(await _watch(lent, seconds)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
