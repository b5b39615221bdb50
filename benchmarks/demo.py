"""The demo and the surprise, several times each: how many succeed, how long they take, how fast a panic holds.

The time from the panic to the hold is taken inside the run: from the first reading of the machine's serial
console that tells of the panic to the escalation. Prints as its last line one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.progress import Progress

from reflexarc.demo.machine import PLAYBOOKS, DemoMachine, prepare
from reflexarc.inventory.opening import end_of_run, open_session
from reflexarc.playbook import document
from reflexarc.playbook.state import Escalation, Outcome
from reflexarc.runs.replies import Reply


async def watch_panic(session_next: Callable[[object], Awaitable[object]], told: list[float]) -> None:
    """Note when the serial console first tells of a panic."""
    seen: object = None
    while not told:
        seen = await session_next(seen)
        if "Kernel panic" in str(getattr(seen, "serial", "")):
            told.append(time.monotonic())


async def once(machine: DemoMachine, *, surprise: bool) -> dict[str, object]:
    held: list[Escalation] = []
    told: list[float] = []

    async def answer(escalation: Escalation) -> Reply:
        held.append(escalation)
        if not surprise or len(held) > 1:
            return Reply("abort", reason=f"unexpected: {escalation.reason}")
        data = document.parse((PLAYBOOKS / "recover.yaml").read_text()).data
        assert isinstance(data, dict)
        return Reply("amend", playbook=data, resume_at=0, grant=["power.reset"])

    began = time.monotonic()
    async with open_session(machine.entry, holder="the demo's benchmark") as session:
        run = await session.begin(
            PLAYBOOKS / ("surprise.yaml" if surprise else "demo.yaml"),
            secret_references={"password": f"file:{machine.password}"},
            grant=() if surprise else ("power.shutdown",),
        )

        async def newer(after: object) -> object:
            return await session.watcher.next(after, 1.0)  # type: ignore[arg-type]

        watching = asyncio.ensure_future(watch_panic(newer, told))
        try:
            state = await run.drive(answer)
        finally:
            watching.cancel()
            run.release()
        described = run.describe()
    await end_of_run(machine.entry, run.id)
    asked = [(str(e.reason), e.observed_phase) for e in held]
    right = asked == ([("off_script", "crash_screen")] if surprise else [])
    return {
        "succeeded": state.outcome is Outcome.SUCCEEDED and right,
        "asked": asked,
        "seconds": time.monotonic() - began,
        "panic_to_hold": held[0].at - told[0] if held and told else None,
        "telemetry": described["telemetry"],
    }


def summary(results: list[dict[str, object]]) -> dict[str, object]:
    seconds = [float(str(r["seconds"])) for r in results]
    telemetry = [r["telemetry"] for r in results]
    vision = sum(t["vision_calls"] for t in telemetry if isinstance(t, dict))
    holds = [float(str(r["panic_to_hold"])) for r in results if r["panic_to_hold"] is not None]
    found: dict[str, object] = {
        "succeeded": f"{sum(bool(r['succeeded']) for r in results)} of {len(results)}",
        "vision_calls": vision,
        "seconds_median": round(statistics.median(seconds), 1),
        "seconds_max": round(max(seconds), 1),
    }
    if holds:
        found["panic_to_hold_s"] = {
            "median": round(statistics.median(holds), 3), "max": round(max(holds), 3), "n": len(holds)
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    times = parser.parse_args().times
    machine = prepare(lambda what, share: None)
    figures: dict[str, object] = {}
    with Progress(console=Console(stderr=True)) as bar:
        for name, surprise in (("demo", False), ("surprise", True)):
            task = bar.add_task(name, total=times)
            results = []
            for _ in range(times):
                results.append(asyncio.run(once(machine, surprise=surprise)))
                bar.advance(task)
                if not results[-1]["succeeded"]:
                    print(f"{name} {len(results)}: {results[-1]['asked']}")
            figures[name] = summary(results)
    host = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({"name": "demo", "figures": figures, "peers": {}, "machine": host}))


if __name__ == "__main__":
    main()
