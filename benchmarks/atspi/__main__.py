"""The accessibility backend on real applications of four toolkits, beside libatspi on the same window.

libatspi walks element by element, as dogtail and OSWorld do through it. Both read role, name and states of every
element, and text, place and actions of those that show, by turns. Prints tables, and as its last line one JSON object.
Toolkits named as arguments are measured alone.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any

from benchmarks.atspi.acting import typing_mistakes, waits
from benchmarks.atspi.reading import TOOLKITS, measure
from guests.desktop.session import DesktopSession

PEER = "libatspi"


def main() -> None:
    figures: dict[str, dict[str, Any]] = {}
    peers: dict[str, dict[str, Any]] = {}
    for toolkit, rows in TOOLKITS.items():
        if sys.argv[1:] and toolkit not in sys.argv[1:]:
            continue
        with DesktopSession() as desktop:
            figures[toolkit], peers[toolkit] = measure(desktop, toolkit, rows)
        report(toolkit, figures[toolkit], peers[toolkit])
    if not sys.argv[1:]:
        act(figures)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    print(json.dumps({"name": "atspi", "figures": figures, "peers": {PEER: peers}, "machine": machine}))


def report(toolkit: str, found: dict[str, Any], peer: dict[str, Any]) -> None:
    """Print one toolkit's figures: median, and what nine of ten don't exceed."""
    same = f"the same as libatspi's in {found['identical_turns']} of {found['turns']} turns"
    print(f"{toolkit}, {found['elements']} elements, {same}; median, p90")
    lines = {
        "first read": (found, "tree_ms_per_1000", f"ms per 1,000, {found['tree_ratio']} x libatspi"),
        "with places": (found, "full_ms_per_1000", f"ms per 1,000, {found['full_ratio']} x libatspi"),
        "libatspi": (peer, "cold_ms_per_1000", "ms per 1,000"),
        "libatspi again": (peer, "warm_ms_per_1000", "ms per 1,000"),
        "outline again": (found, "redump_ms", "ms"),
        "tree again": (found, "retree_ms", "ms"),
        "tree changed": (found, "changed_ms", "ms, once a button has changed a label"),
        "find a button": (found, "find_ms", "ms, the first, where nothing was read before"),
        "find all of it": (found, "find_all_ms", "ms, all that are called so"),
    }
    for name, (values, key, unit) in lines.items():
        print(f"  {name:<17}{values[key]:>8} {values[key + '_p90']:>8} {unit}")
    print(f"  outline          {found['outline_percent']:>8} % of the tree's JSON")
    print(f"  interactive only {found['interactive_percent']:>8} %")


def act(figures: dict[str, dict[str, Any]]) -> None:
    """Measure waiting and typing."""
    with DesktopSession() as desktop:
        figures["wait"] = waits(desktop)
        print(f"wait: from the change to the answer {figures['wait']}")
        figures["typing"] = typing_mistakes(desktop)
        print(f"typing: {figures['typing']}")


if __name__ == "__main__":
    main()
