"""DBOS, a workflow engine whose steps are journalled: milliseconds of each of so many empty steps, as JSON."""

from __future__ import annotations

import json
import sys
import time

from dbos import DBOS  # type: ignore[import-not-found]

STEPS, FOLDER = int(sys.argv[1]), sys.argv[2]
DBOS(
    config={
        "name": "benchmark",
        "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite",
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


@DBOS.step()  # type: ignore[untyped-decorator]
def step(number: int) -> int:
    return number


@DBOS.workflow()  # type: ignore[untyped-decorator]
def flow() -> list[float]:
    times = []
    for number in range(STEPS):
        began = time.perf_counter()
        step(number)
        times.append((time.perf_counter() - began) * 1000)
    return times


DBOS.launch()
print(json.dumps(flow()))
DBOS.destroy()
