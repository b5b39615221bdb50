"""A small Linux in QEMU with the agent in it, reached over virtio-serial; its Python is this system's own."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.agents import PATIENCE, environment
from tests.guests import build_guest, cloud_kernel
from tests.serial import Line

PORTS = ("reflexarc", "second")
MODULES = ("virtio_pci", "virtio_console", "vsock_loopback", "vmw_vsock_virtio_transport")
BOOT = 90.0
# What the agent and the tests' scripts import, and the rest of a standard library but its largest parts.
LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "idlelib", "ensurepip", "lib2to3", "pydoc_data", "tkinter", "config-*", "dist-packages"
)
INIT = """#!/bin/sh
export PATH=/bin:/usr/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /tmp /run /etc
echo 'root:x:0:0:root:/:/bin/sh' > /etc/passwd
load {modules}
ip link set lo up
exec python3 -I /reflexarc-agent.pyz --headless --vsock {ports} > /dev/ttyS0 2>&1
"""


@dataclass(frozen=True)
class Guest:
    """A running guest: for each port the socket at its other end, and what it said on its serial console."""

    folder: Path

    @contextmanager
    def line(self, port: str, nonce: str) -> Iterator[Line]:
        """Be the host at that port."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.connect(str(self.folder / port))
            line = Line(stream.fileno(), nonce)
            line.sync()
            yield line


def build(folder: Path) -> tuple[Path, Path]:
    """Build the kernel and the archive to start it with, in an empty folder."""
    ports = " ".join(f"--virtio-serial {port}" for port in PORTS)
    init = INIT.format(modules=" ".join(MODULES), ports=ports)
    root, image = folder / "root", folder / "initrd"
    _python(root)
    subprocess.run(
        [sys.executable, "-m", "reflexarc_agent.archive", str(root / "reflexarc-agent.pyz")],
        env=environment(), check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    build_guest(root, init, MODULES, image)
    return cloud_kernel().image, image


@contextmanager
def booted(folder: Path, *options: str) -> Iterator[Guest]:
    """Build and start a guest; it is there once its agent answers."""
    kernel, image = build(folder)
    ports = [
        part
        for port in PORTS
        for part in (
            "-chardev", f"socket,id={port},path={folder / port},server=on,wait=off",
            "-device", f"virtserialport,chardev={port},name={port}",
        )
    ]  # fmt: skip
    with open(folder / "console", "wb") as console:
        process = subprocess.Popen(
            [
                "qemu-system-x86_64", "-accel", "tcg", "-m", "384", "-nodefaults", "-display", "none",
                "-no-reboot", "-kernel", str(kernel), "-initrd", str(image),
                "-append", "quiet console=ttyS0 panic=-1", "-serial", "stdio",
                "-device", "virtio-serial-pci", *ports, *options,
            ],
            stdin=subprocess.DEVNULL, stdout=console,
        )  # fmt: skip
    try:
        _await(folder / "console", "serving serial:second", process)
        yield Guest(folder)
    finally:
        process.kill()
        process.wait(PATIENCE)


def _await(console: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    """Follow the console until it shows the words."""
    deadline = time.monotonic() + BOOT
    with subprocess.Popen(["tail", "-c", "+1", "-f", console], stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        said = b""
        try:
            while words.encode() not in said:
                assert process.poll() is None, said.decode("utf-8", "replace")
                assert time.monotonic() < deadline, said.decode("utf-8", "replace")
                said += following.stdout.readline()
        finally:
            following.kill()


def _python(root: Path) -> None:
    """Copy /usr/bin/python3, its standard library, and the libraries both need."""
    program = Path("/usr/bin/python3").resolve()
    library = Path("/usr/lib", program.name)
    (root / "usr/bin").mkdir(parents=True)
    shutil.copy2(program, root / "usr/bin/python3")
    shutil.copytree(library, root / library.relative_to("/"), ignore=LEFT_OUT)
    linked = subprocess.run(
        ["ldd", program, *library.glob("lib-dynload/*.so")], check=True, capture_output=True, text=True
    ).stdout
    for name in set(re.findall(r"(/\S+\.so\S*) \(0x", linked)):
        target = root / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, target)
