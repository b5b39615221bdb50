"""The accessibility backend on real applications of four toolkits, beside libatspi on the same window.

libatspi walks element by element, as dogtail and OSWorld do through it. Both read role, name and states of every
element, and text, place and actions of those that show. Prints tables, and as its last line one JSON object.
"""

from __future__ import annotations

import json
import os
import platform
from typing import Any

from benchmarks.atspi.acting import typing_mistakes, waits
from benchmarks.atspi.reading import TOOLKITS, measure
from guests.desktop.session import DesktopSession

PEER = "libatspi"


def main() -> None:
    figures: dict[str, dict[str, Any]] = {}
    peers: dict[str, dict[str, Any]] = {}
    for toolkit, rows in TOOLKITS.items():
        with DesktopSession() as desktop:
            figures[toolkit], peers[toolkit] = measure(desktop, toolkit, rows)
        found, peer = figures[toolkit], peers[toolkit]
        same = f"the same as libatspi's in {found['identical_turns']} of {found['turns']} turns"
        print(f"{toolkit}, {found['elements']} elements, {same}")
        print(
            f"  first read       {found['tree_ms_per_1000']:>8} ms per 1,000, {found['tree_ratio']} x libatspi"
        )
        print(
            f"  with places      {found['full_ms_per_1000']:>8} ms per 1,000, {found['full_ratio']} x libatspi"
        )
        print(f"  libatspi         {peer['cold_ms_per_1000']:>8} ms per 1,000")
        print(f"  libatspi again   {peer['warm_ms_per_1000']:>8} ms per 1,000")
        print(f"  outline again    {found['redump_ms']:>8} ms, the tree {found['retree_ms']} ms")
        print(f"  find a button    {found['find_ms']:>8} ms, where nothing was read before")
        print(f"  outline          {found['outline_percent']:>8} % of the tree's JSON")
        print(f"  interactive only {found['interactive_percent']:>8} %")
    with DesktopSession() as desktop:
        figures["wait"] = waits(desktop)
        print(f"wait: from the change to the answer {figures['wait']}")
        figures["typing"] = typing_mistakes(desktop)
        print(f"typing: {figures['typing']}")
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    print(json.dumps({"name": "atspi", "figures": figures, "peers": {PEER: peers}, "machine": machine}))


if __name__ == "__main__":
    main()
