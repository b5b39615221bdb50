"""What watching a QEMU machine costs, how soon a switch of its video mode is seen, whether going back loses anything.

Prints a table, and as its last line one JSON object. The peer, a VNC client that waits for a picture, is installed by
`benchmarks/reflex/install`. CPU is that of the watching process alone, whatever else the host does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.qemu.returning import returning
from benchmarks.qemu.switching import switches
from benchmarks.qemu.watching import costs
from benchmarks.reflex.__main__ import host
from benchmarks.reflex.rig import PeerAbsentError
from rich.console import Console
from rich.table import Table

PARTS = ("watching", "switching", "returning")


async def measure(folder: Path, asked: argparse.Namespace) -> tuple[dict[str, object], dict[str, object]]:
    """Return our figures and the peer's, by part."""
    figures: dict[str, object] = {}
    peers: dict[str, object] = {}
    if "watching" in asked.parts:
        (folder / "watching").mkdir()
        ours, peer = await costs(folder / "watching", asked.seconds)
        figures["watching"] = ours.figures()
        peers["vncdo"] = {"absent": str(peer)} if isinstance(peer, PeerAbsentError) else peer.figures()
    if "switching" in asked.parts:
        found = await switches(folder / "switching", asked.switch_rounds)
        figures["switching"] = {
            "switches": len(found),
            "late_frames_at_most": max(one.late for one in found),
            "late_frames_mean": round(statistics.mean(one.late for one in found), 2),
            "late_at_most_s": round(max(one.seconds for one in found), 3),
        }
    if "returning" in asked.parts:
        figures["returning"] = await returning(folder / "returning", asked.rounds)
    return figures, peers


def show(figures: dict[str, object], peers: dict[str, object]) -> None:
    table = Table("", "", "reflexarc", *peers)
    for part, own in figures.items():
        assert isinstance(own, dict)
        for name, value in own.items():
            others = [peer.get(name, "-") if isinstance(peer, dict) else "-" for peer in peers.values()]
            table.add_row(part, name, str(value), *map(str, others))
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="of watching, for each kind of screen")
    parser.add_argument("--rounds", type=int, default=50, help="of saving, going back and freezing")
    parser.add_argument("--switch-rounds", type=int, default=5, help="through the modes, six switches each")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="only these")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reflexarc-bench-") as folder:
        os.environ["REFLEXARC_STATE"] = f"{folder}/reflexarc"
        figures, peers = asyncio.run(measure(Path(folder), asked))
    show(figures, peers)
    print(json.dumps({"name": "qemu", "figures": figures, "peers": peers, "machine": host()}))


if __name__ == "__main__":
    main()
