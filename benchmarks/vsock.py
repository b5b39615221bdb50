"""A guest reached by our vsock device, beside virtio-serial and TCP through QEMU's user network, in the same run.

Prints a table, and as its last line one JSON object. The guest runs emulated; the rounds are interleaved, as a shared
host slows down and speeds up. REFLEXARC_BENCH_MIB sets how much is streamed (16).
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.guests import build_python
from tests.talking import MODULES, TALKER, TCP_PORT, RefusedError, connect, pattern

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import find
from reflexarc.drivers.qemu.vsock import process

SIZE = int(os.environ.get("REFLEXARC_BENCH_MIB", "16")) << 20
ROUNDS = 5
PINGS = 200
BOOT_PATIENCE = 120.0

Opened = Callable[[], socket.socket]


@contextmanager
def guest(folder: Path) -> Iterator[dict[str, Opened]]:
    """A machine that is up, and how its guest is reached in each way."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        tcp_port = free.getsockname()[1]
    (folder / "guest").mkdir()
    serial = folder / "port.sock"
    config = QemuConfig(
        binary=str(build_python(folder / "guest", TALKER, MODULES)),
        memory_mib=512,
        vsock=True,
        arguments=(
            *("-device", "virtio-serial-pci", "-chardev", f"socket,id=port,path={serial},server=on,wait=off"),
            *("-device", "virtserialport,chardev=port,name=port"),
            *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{tcp_port}-:{TCP_PORT}"),
            *("-device", "virtio-net-pci,netdev=net"),
        ),
    )

    async def start() -> None:
        async with open_driver(config, machine="bench", state_dir=folder / "state") as lent:
            assert lent.power is not None
            await lent.power.on()

    def by_serial() -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(str(serial))
        return stream

    ways: dict[str, Opened] = {
        "vsock": lambda: connect(folder / "state" / process.SOCKET),
        "virtio-serial": by_serial,
        "TCP": lambda: socket.create_connection(("127.0.0.1", tcp_port)),
    }
    asyncio.run(start())
    try:
        await_guest(ways["vsock"])
        yield ways
    finally:
        vm = find("bench", folder / "state")
        if vm is not None:
            vm.stop()


def await_guest(opened: Opened) -> None:
    deadline = time.monotonic() + BOOT_PATIENCE
    while time.monotonic() < deadline:
        with suppress(RefusedError), opened():
            return
        time.sleep(0.2)
    raise TimeoutError("the guest did not come up")


def exactly(stream: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = stream.recv(min(size, 1 << 18))
        assert part
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def pings(opened: Opened) -> list[float]:
    """Milliseconds of a byte's way to a program in the guest and back."""
    with opened() as stream:
        stream.sendall(b"echo %d\n" % (PINGS + 3))
        found = []
        for _ in range(PINGS + 3):
            began = time.perf_counter()
            stream.sendall(b"x")
            assert stream.recv(1) == b"x"
            found.append((time.perf_counter() - began) * 1000)
    return found[3:]


def first_ping(opened: Opened) -> float:
    """Milliseconds until a byte has come back on a new connection."""
    began = time.perf_counter()
    with opened() as stream:
        stream.sendall(b"echo 1\nx")
        assert stream.recv(1) == b"x"
        return (time.perf_counter() - began) * 1000


def to_guest(opened: Opened) -> float:
    """MiB/s until a program in the guest has read it all."""
    data, expected = pattern(SIZE), b"%d\n" % SIZE
    with opened() as stream:
        began = time.perf_counter()
        stream.sendall(b"count %d\n" % SIZE)
        stream.sendall(data)
        assert exactly(stream, len(expected)) == expected
        return SIZE / (time.perf_counter() - began) / (1 << 20)


def from_guest(opened: Opened) -> float:
    """MiB/s until all that a program in the guest wrote is read."""
    with opened() as stream:
        began = time.perf_counter()
        stream.sendall(b"send %d\n" % SIZE)
        got = exactly(stream, SIZE)
        rate = SIZE / (time.perf_counter() - began) / (1 << 20)
    assert got == pattern(SIZE)
    return rate


MEASURES: dict[str, tuple[Callable[[Opened], float], str]] = {
    "round trip, p50": (lambda opened: statistics.median(pings(opened)), "ms"),
    "connect and first round trip": (first_ping, "ms"),
    "host to guest": (to_guest, "MiB/s"),
    "guest to host": (from_guest, "MiB/s"),
}


def measured(ways: dict[str, Opened]) -> dict[str, dict[str, list[float]]]:
    """Measure -> way -> a figure a round."""
    found: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in ways} for name in MEASURES}
    for _ in range(ROUNDS):
        for name, (measure, _) in MEASURES.items():
            for kind, opened in ways.items():
                if kind == "virtio-serial" and "connect" in name:
                    continue  # it is one stream, and nothing is connected
                found[name][kind].append(measure(opened))
    return found


def main() -> None:
    version = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    figures: dict[str, object] = {
        "python": platform.python_version(),
        "qemu": version.stdout.split()[3],
        "load": os.getloadavg()[0],
        "mib": SIZE >> 20,
    }
    with tempfile.TemporaryDirectory() as folder, guest(Path(folder)) as ways:
        for name, found in measured(ways).items():
            unit = MEASURES[name][1]
            figures[name] = {
                kind: {
                    "median": round(statistics.median(of), 2),
                    "range": [round(min(of), 2), round(max(of), 2)],
                }
                for kind, of in found.items()
                if of
            }
            for kind, of in found.items():
                if of:
                    print(
                        f"{name:<30} {kind:<14} {statistics.median(of):8.2f} {unit:<6}"
                        f" ({min(of):.2f} to {max(of):.2f})"
                    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
