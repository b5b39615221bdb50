"""What `reflexarc watch` costs beside one VM, and what a VNC client costs that waits for a picture there."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reflex.rig import PeerAbsentError, free_display
from benchmarks.reflex.vncdo import ENVIRONMENT, Vncdo
from PIL import Image
from tests.contract.rigs import said
from tests.guests import build_desk

from reflexarc.inventory import entries, opening
from reflexarc.machine.capabilities import Console

LINES_PER_SECOND = 20
SETTLING = 3.0
_LINE = "systemd[1]: Started unit number $n of the log."
# An unknown screen is the dearer one: what is known is not read again when only the cursor blinks.
STILL = f'clear > /dev/tty1; n=0; while [ $n -lt 20 ]; do echo "[ $n.123456 ] {_LINE}"; n=$((n+1)); done > /dev/tty1\n'
SCROLL = (
    f'(n=0; while :; do echo "[ $n.123456 ] {_LINE}"; sleep {1 / LINES_PER_SECOND}; n=$((n+1)); done '
    "> /dev/tty1) &\n"
)
STILL_AGAIN = "kill $!\n"


@dataclass(frozen=True)
class Cost:
    """Percent of a core while the screen is still and while it scrolls, and mebibytes resident."""

    still: float
    scrolling: float
    resident: float

    def figures(self) -> dict[str, float]:
        return {
            "still_cpu_percent": round(self.still, 2),
            "scrolling_cpu_percent": round(self.scrolling, 2),
            "rss_mib": round(self.resident, 1),
        }


async def costs(folder: Path, seconds: float) -> tuple[Cost, Cost | PeerAbsentError]:
    """Measure ours and the peer one after the other, on the same VM, each over so many seconds of both screens."""
    inventory, display = folder / "reflexarc.toml", free_display()
    (folder / "guest").mkdir()
    inventory.write_text(
        '[machines.watched]\ndrivers = ["qemu"]\n[machines.watched.qemu]\naccel = "tcg"\nmemory_mib = 512\n'
        f'binary = "{build_desk(folder / "guest")}"\narguments = ["-vnc", "127.0.0.1:{display}"]\n'
    )
    entry = entries.load(inventory).entry("watched")
    try:
        async with opening.open_capabilities(entry) as lent:
            assert lent.console is not None
            assert lent.power is not None
            await lent.power.on()
            await said(lent.console, "READY")
            watch = [sys.executable, "-m", "reflexarc", "watch", "watched", "--json"]
            ours = await _cost([*watch, "--inventory", str(inventory)], lent.console, seconds)
            return ours, await _peer(display, folder / "never.png", lent.console, seconds)
    finally:
        opening.stop_vm(entry)


async def _peer(display: int, picture: Path, console: Console, seconds: float) -> Cost | PeerAbsentError:
    try:
        Vncdo().version()
    except PeerAbsentError as error:
        return error
    Image.new("RGB", (720, 400), "red").save(picture)
    command = [
        str(ENVIRONMENT / "bin/vncdo"),
        "-s",
        f"127.0.0.1::{5900 + display}",
        "expect",
        str(picture),
        "0",
    ]
    return await _cost(command, console, seconds)


async def _cost(command: Sequence[str], console: Console, seconds: float) -> Cost:
    await console.write(STILL)
    async with _running(command) as pid:
        await asyncio.sleep(SETTLING)
        still = await _cpu_percent(pid, seconds)
        await console.write(SCROLL)
        await asyncio.sleep(SETTLING)
        scrolling = await _cpu_percent(pid, seconds)
        await console.write(STILL_AGAIN)
        return Cost(still, scrolling, _resident_mib(pid))


@asynccontextmanager
async def _running(command: Sequence[str]) -> AsyncIterator[int]:
    program = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield program.pid
        assert program.returncode is None, f"{command[0]} has ended"
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


async def _cpu_percent(pid: int, seconds: float) -> float:
    before = _cpu_seconds(pid)
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(seconds)
    return 100 * (_cpu_seconds(pid) - before) / (asyncio.get_running_loop().time() - began)


def _cpu_seconds(pid: int) -> float:
    """The time that a process has computed. Source: proc(5), /proc/pid/stat, fields 14 and 15."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float:
    """Source: proc(5), VmHWM: the most that was resident."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024
