"""The in-guest agent over a unix socket, beside the bare socket and the bare command.

Prints a table, and as its last line one JSON object. REFLEXARC_BENCH_MIB sets how much is streamed (1024).
"""

from __future__ import annotations

import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.agents import Agent, ended, running

from reflexarc_wire.frames import Exit, Stdout
from reflexarc_wire.requests import Exec, Ping

MIB = int(os.environ.get("REFLEXARC_BENCH_MIB", "1024"))
SIZE = MIB << 20
ROUNDS = 3
STREAM = ("head", "-c", str(SIZE), "/dev/zero")
ECHO = "import socket,sys; s=socket.socket(fileno=0)\nwhile d:=s.recv(65536): s.sendall(d)"
RELAY = "import os\nwhile d:=os.read(0,65536): os.write(1,d)"


def milliseconds(act: Callable[[], object], times: int) -> list[float]:
    """Wall-clock milliseconds of each call, the first (cold) ones left out."""
    found = []
    for _ in range(times + 3):
        began = time.perf_counter()
        act()
        found.append((time.perf_counter() - began) * 1000)
    return found[3:]


def round_trips(agent: Agent) -> dict[str, list[float]]:
    near, far = socket.socketpair()
    with near, far, subprocess.Popen([sys.executable, "-c", ECHO], stdin=far.fileno()):
        far.close()
        with agent.host() as host:
            ours = milliseconds(lambda: host.ask(Ping()), 3000)
        bare = milliseconds(lambda: near.send(b"x" * 14) and near.recv(100), 3000)
        near.shutdown(socket.SHUT_WR)
    return {"ping": ours, "ping, peer: a bare echo in Python": bare}


def commands(agent: Agent) -> dict[str, list[float]]:
    def ours() -> None:
        assert agent.run(Exec(argv=("true",))).last == Exit(0)

    bare = milliseconds(lambda: subprocess.run(["true"], check=True), 200)
    return {
        "exec true, connection included": milliseconds(ours, 200),
        "exec true, peer: subprocess.run": bare,
    }


def held_exit(agent: Agent) -> float:
    """How long after the command's own end its exit arrives while a background child holds the output."""
    with agent.host() as host:
        host.start(Exec(command="sleep 1000 & echo $! $(date +%s.%N)"))
        child, ended = host.line().split()
        assert host.outcome().last == Exit(0, truncated=True)
        late = time.time() - float(ended)
    os.kill(int(child), 9)
    return late * 1000


def killed(agent: Agent) -> float:
    """How long after the host is gone a grandchild of its command is dead."""
    with agent.host() as host:
        host.start(Exec(command="sleep 1000 & echo $!; wait"))
        grandchild = int(host.line())
        began = time.perf_counter()
    assert ended(grandchild)
    return (time.perf_counter() - began) * 1000


def streamed(agent: Agent, *, decoded: bool, raw: bool) -> float:
    """MiB/s of a command's output through the agent, read as frames or, to see the agent alone, as bytes."""
    with agent.host() as host:
        began = time.perf_counter()
        host.start(Exec(argv=STREAM, raw=raw))
        if decoded:
            left = SIZE
            while not isinstance(frame := host.frame(), Exit):
                left -= len(frame.d) if isinstance(frame, Stdout) else 0
            assert left == 0
        else:
            while host.stream.recv(1 << 16):
                pass
        return MIB / (time.perf_counter() - began)


def bare_stream(*, relayed: bool) -> float:
    """MiB/s of the same output straight into a socket, or through a loop of read and write in Python."""
    near, far = socket.socketpair()
    began = time.perf_counter()
    with near, far, subprocess.Popen(STREAM, stdout=subprocess.PIPE if relayed else far.fileno()) as source:
        command = [sys.executable, "-c", RELAY]
        relay = subprocess.Popen(command, stdin=source.stdout, stdout=far.fileno()) if relayed else None
        far.close()
        left = SIZE
        while left:
            left -= len(near.recv(1 << 16))
        if relay is not None:
            relay.wait()
    return MIB / (time.perf_counter() - began)


def streams(agent: Agent) -> dict[str, float]:
    """Medians of interleaved rounds, as a shared host slows down and speeds up."""
    cases: dict[str, Callable[[], float]] = {
        "stream, raw": partial(streamed, agent, decoded=True, raw=True),
        "stream, raw, the agent alone": partial(streamed, agent, decoded=False, raw=True),
        "stream, base64": partial(streamed, agent, decoded=True, raw=False),
        "stream, base64, the agent alone": partial(streamed, agent, decoded=False, raw=False),
        "stream, peer: relayed by Python": partial(bare_stream, relayed=True),
        "stream, peer: straight into the socket": partial(bare_stream, relayed=False),
    }
    found = [{name: case() for name, case in cases.items()} for _ in range(ROUNDS)]
    return {name: statistics.median(each[name] for each in found) for name in cases}


def main() -> None:
    figures: dict[str, object] = {"python": platform.python_version(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "agent.sock") as agent:
        times = {**round_trips(agent), **commands(agent)}
        times["exit while a child holds the output"] = [held_exit(agent) for _ in range(20)]
        times["host gone -> group dead"] = [killed(agent) for _ in range(20)]
        for name, found in times.items():
            p50, p90 = statistics.median(found), statistics.quantiles(found, n=10)[-1]
            figures[name] = {"p50_ms": round(p50, 3), "p90_ms": round(p90, 3), "max_ms": round(max(found), 3)}
            print(f"{name:<40} p50 {p50:8.3f} ms   p90 {p90:8.3f} ms   max {max(found):8.3f} ms")
        before = agent.resident_kib()
        rates = streams(agent)
        figures["rss_growth_mib"] = round((agent.resident_kib() - before) / 1024, 1)
    bare = rates["stream, peer: straight into the socket"]
    for name, rate in rates.items():
        figures[name] = {"mib_per_s": round(rate, 1), "percent_of_bare": round(100 * rate / bare)}
        print(f"{name:<40} {rate:8.1f} MiB/s  {100 * rate / bare:4.0f} %")
    print(
        f"{'the agent grew by':<40} {figures['rss_growth_mib']:>8} MiB while {4 * ROUNDS} x {MIB} MiB passed"
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
