"""How long from a menu on the screen to the key in the guest: reflexarc and its peers, by turns on the same rig.

The menu comes on a text screen, in a BIOS's framebuffer and in UEFI's; the peers have the text screen only.
Prints a table, and as its last line one JSON object. Peers are installed by `benchmarks/reflex/install`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.reflex.grub import grub_guest
from benchmarks.reflex.guest import CACHE, Guest, stimulus_guest
from benchmarks.reflex.kvm_pilot import KvmPilot
from benchmarks.reflex.os_autoinst import OsAutoinst
from benchmarks.reflex.ours import Reflexarc
from benchmarks.reflex.rig import Peer, PeerAbsentError, Reaction, Stimulus, Wait, last_words
from benchmarks.reflex.vncdo import Vncdo
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

OURS = Reflexarc()
PEERS: Sequence[Peer] = (OsAutoinst(), KvmPilot(), Vncdo())
SCREENS: Mapping[str, Callable[[], Guest]] = {
    "text": stimulus_guest,
    "framebuffer": partial(grub_guest, "bios"),
    "uefi": partial(grub_guest, "uefi"),
}
Watch = Callable[[Path], AbstractAsyncContextManager[Wait]]
Results = dict[str, list[Reaction] | PeerAbsentError]
BLOCK = 5  # trials in a row on one VM before the next one's turn


@dataclass(frozen=True)
class Contestant:
    """One that watches one guest. delays: whether the guest waits by itself before it shows its menu."""

    name: str
    version: Callable[[], str]
    watch: Watch
    delays: bool


def contestants(screens: Sequence[str], peers: Sequence[Peer]) -> Sequence[Contestant]:
    """Ourselves on each of the screens, and the peers on the text screen."""
    found = []
    for screen in screens:
        guest = SCREENS[screen]()
        found.append(Contestant(screen, OURS.version, partial(OURS.watch, guest), guest.delays))
    if "text" in screens:
        text = stimulus_guest()
        found += [
            Contestant(peer.name, peer.version, partial(peer.watch, text), text.delays) for peer in peers
        ]
    return found


async def block(one: Contestant, delays: Sequence[float], progress: Progress) -> list[Reaction]:
    """Run some trials on a fresh VM; one machine runs at a time."""
    task = progress.add_task(one.name, total=len(delays))
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="run-") as folder:
        try:
            async with one.watch(Path(folder)) as wait:
                stimulus = await Stimulus.connect(Path(folder) / "reaction", delays=one.delays)
                reactions = []
                for delay in delays:
                    await wait()
                    reactions.append(await stimulus.trial(delay))
                    progress.advance(task)
                stimulus.close()
                # The last trial's moment is still unread; the others are in order where none was missed.
                pressed = getattr(wait, "pressed", [])
                if len(pressed) == len(reactions) - 1:
                    told = zip(reactions[:-1], pressed, strict=True)
                    reactions[:-1] = [replace(reaction, sent=at - reaction.shown) for reaction, at in told]
        except EOFError:
            raise PeerAbsentError(f"its machine has ended: {last_words(Path(folder))}") from None
    progress.remove_task(task)
    return reactions


async def compare(trials: int, all_: Sequence[Contestant], progress: Progress) -> Results:
    """Take turns, block by block; one that fails is out from then on."""
    delays = [random.uniform(3, 8) for _ in range(trials)]  # the same for everyone
    results: Results = {}
    for start in range(0, trials, BLOCK):
        for one in all_:
            before = results.setdefault(one.name, [])
            if isinstance(before, PeerAbsentError):
                continue
            try:
                one.version()
                before.extend(await block(one, delays[start : start + BLOCK], progress))
            except (PeerAbsentError, TimeoutError, OSError) as error:
                results[one.name] = PeerAbsentError(
                    str(error) or f"did not get ready or answer ({type(error).__name__})"
                )
    return results


def figures(reactions: Sequence[Reaction]) -> dict[str, float | int | None]:
    seconds = sorted(r.seconds for r in reactions if r.seconds is not None)
    found: dict[str, float | int | None] = {
        "trials": len(reactions),
        "missed": len(reactions) - len(seconds),
        "wrong_keys": sum(r.wrong for r in reactions),
    }
    if len(seconds) > 1:
        found["median_s"] = round(statistics.median(seconds), 4)
        found["p90_s"] = round(statistics.quantiles(seconds, n=10, method="inclusive")[-1], 4)
        found["max_s"] = round(seconds[-1], 4)
    sent = [r.sent for r in reactions if r.sent is not None]
    if len(sent) > 1:
        found["key_sent_median_s"] = round(statistics.median(sent), 4)
        found["key_sent_p90_s"] = round(statistics.quantiles(sent, n=10, method="inclusive")[-1], 4)
    return found


def report(results: Results) -> dict[str, dict[str, object]]:
    """The figures of each, with the ratio of its median to ours on a text screen; print them as a table."""
    table = Table("", "trials", "missed", "wrong keys", "median s", "p90 s", "max s", "ratio to ours")
    ours = results.get("text")
    own = figures(ours).get("median_s") if isinstance(ours, list) else None
    rows: dict[str, dict[str, object]] = {}
    for name, result in results.items():
        shown_name = f"{OURS.name}, {name}" if name in SCREENS else name
        if isinstance(result, PeerAbsentError):
            rows[name] = {"absent": str(result)}
            table.add_row(shown_name, f"absent: {result}")
            continue
        row: dict[str, object] = dict(figures(result))
        median = figures(result).get("median_s")
        if own and median:
            row["ratio"] = round(median / own, 1)
        shown = ("trials", "missed", "wrong_keys", "median_s", "p90_s", "max_s", "ratio")
        table.add_row(shown_name, *(str(row.get(key, "-")) for key in shown))
        rows[name] = row
    Console(width=110).print(table)
    return rows


def host() -> dict[str, object]:
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    return {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "qemu": qemu.stdout.split("\n")[0].removeprefix("QEMU emulator version "),
        "accel": "tcg",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20, help="trials of each")
    parser.add_argument("--peers", nargs="*", help="only these", choices=[peer.name for peer in PEERS])
    parser.add_argument(
        "--screen", nargs="*", default=list(SCREENS), choices=list(SCREENS), help="only these"
    )
    asked = parser.parse_args()
    chosen = [peer for peer in PEERS if asked.peers is None or peer.name in asked.peers]
    with Progress(console=Console(stderr=True)) as progress:
        results = asyncio.run(compare(asked.trials, contestants(asked.screen, chosen), progress))
    rows = report(results)
    for peer in chosen:
        if isinstance(results.get(peer.name), list):
            rows[peer.name]["version"] = peer.version()
    own = {name: rows.pop(name) for name in asked.screen}
    print(json.dumps({"name": "reflex", "figures": own, "peers": rows, "machine": host()}))
    sys.exit(any("absent" in row for row in own.values()))


if __name__ == "__main__":
    main()
