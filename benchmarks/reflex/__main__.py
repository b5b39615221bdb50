"""How long from a menu on the screen to the key in the guest: reflexarc and its peers, by turns on the same rig.

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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.reflex.guest import CACHE, StimulusGuest, stimulus_guest
from benchmarks.reflex.kvm_pilot import KvmPilot
from benchmarks.reflex.os_autoinst import OsAutoinst
from benchmarks.reflex.ours import Reflexarc
from benchmarks.reflex.rig import Peer, PeerAbsentError, Reaction, Stimulus, last_words
from benchmarks.reflex.vncdo import Vncdo
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

OURS = Reflexarc()
PEERS: Sequence[Peer] = (OsAutoinst(), KvmPilot(), Vncdo())
BLOCK = 5  # trials in a row on one VM before the next one's turn


async def block(
    peer: Peer, guest: StimulusGuest, delays: Sequence[float], progress: Progress
) -> list[Reaction]:
    """Run some trials on a fresh VM; one machine runs at a time."""
    task = progress.add_task(peer.name, total=len(delays))
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="run-") as folder:
        try:
            async with peer.watch(guest, Path(folder)) as wait:
                stimulus = await Stimulus.connect(Path(folder) / "reaction")
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


async def compare(
    trials: int, peers: Mapping[str, Peer], progress: Progress
) -> dict[str, list[Reaction] | PeerAbsentError]:
    """Take turns, block by block; a peer that fails is out from then on."""
    guest = stimulus_guest()
    delays = [random.uniform(3, 8) for _ in range(trials)]  # the same for everyone
    results: dict[str, list[Reaction] | PeerAbsentError] = {}
    for start in range(0, trials, BLOCK):
        for name, peer in peers.items():
            before = results.setdefault(name, [])
            if isinstance(before, PeerAbsentError):
                continue
            try:
                peer.version()
                before.extend(await block(peer, guest, delays[start : start + BLOCK], progress))
            except (PeerAbsentError, TimeoutError, OSError) as error:
                results[name] = PeerAbsentError(
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


def report(results: Mapping[str, list[Reaction] | PeerAbsentError]) -> dict[str, dict[str, object]]:
    """The figures of each, with the ratio of its median to ours; print them as a table."""
    table = Table("", "trials", "missed", "wrong keys", "median s", "p90 s", "max s", "ratio to ours")
    ours = results[OURS.name]
    own = figures(ours).get("median_s") if not isinstance(ours, PeerAbsentError) else None
    rows: dict[str, dict[str, object]] = {}
    for name, result in results.items():
        if isinstance(result, PeerAbsentError):
            rows[name] = {"absent": str(result)}
            table.add_row(name, f"absent: {result}")
            continue
        row: dict[str, object] = dict(figures(result))
        median = figures(result).get("median_s")
        if own and median:
            row["ratio"] = round(median / own, 1)
        shown = ("trials", "missed", "wrong_keys", "median_s", "p90_s", "max_s", "ratio")
        table.add_row(name, *(str(row.get(key, "-")) for key in shown))
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
    asked = parser.parse_args()
    chosen = [peer for peer in PEERS if asked.peers is None or peer.name in asked.peers]
    everyone: dict[str, Peer] = {peer.name: peer for peer in (OURS, *chosen)}
    with Progress(console=Console(stderr=True)) as progress:
        results = asyncio.run(compare(asked.trials, everyone, progress))
    rows = report(results)
    for peer in chosen:
        if not isinstance(results[peer.name], PeerAbsentError):
            rows[peer.name]["version"] = peer.version()
    own = rows.pop(OURS.name)
    print(json.dumps({"name": "reflex", "figures": own, "peers": rows, "machine": host()}))
    sys.exit("absent" in own)


if __name__ == "__main__":
    main()
