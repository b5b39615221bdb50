"""Start-up: importing reflexarc, and the command's shortest answers, beside a bare interpreter.

Prints a table, and as its last line one JSON object.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
COMMAND = str(Path(sys.executable).parent / "reflexarc")
CASES = {
    "bare interpreter": [sys.executable, "-c", "pass"],
    "import reflexarc": [sys.executable, "-c", "import reflexarc"],
    "reflexarc --version": [COMMAND, "--version"],
    "reflexarc --help": [COMMAND, "--help"],
    "reflexarc runs list": [COMMAND, "runs", "list"],
}
PEERS = {"click alone": [sys.executable, "-c", "import click"]}


def milliseconds(command: list[str]) -> list[float]:
    """Wall-clock milliseconds of each run, the first (cold) one left out."""
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - began) * 1000)
    return times[1:]


def foreign_modules() -> int:
    """How many third-party modules `import reflexarc` loads."""
    code = (
        "import sys; before = set(sys.modules); import reflexarc;"
        "print(sum('site-packages' in (getattr(m, '__file__', None) or '')"
        " for n, m in list(sys.modules.items()) if n not in before))"
    )
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    for name, command in {**CASES, **PEERS}.items():
        times = milliseconds(command)
        p90 = statistics.quantiles(times, n=10)[-1]
        found[name] = {"median_ms": round(statistics.median(times), 1), "p90_ms": round(p90, 1)}
        print(f"{name:<22} {found[name]['median_ms']:>8} ms median {found[name]['p90_ms']:>8} ms p90")
    cost = found["import reflexarc"]["median_ms"] - found["bare interpreter"]["median_ms"]
    figures: dict[str, object] = {name: found[name] for name in CASES}
    figures["import_cost_ms"] = round(cost, 1)
    figures["third_party_modules"] = foreign_modules()
    print(f"importing reflexarc adds {cost:.1f} ms, {figures['third_party_modules']} third-party modules")
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    peers = {name: found[name] for name in PEERS}
    print(json.dumps({"name": "startup", "figures": figures, "peers": peers, "machine": machine}))


if __name__ == "__main__":
    main()
