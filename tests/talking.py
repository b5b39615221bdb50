"""A guest that talks by vsock, by virtio-serial and by TCP, and how a host program talks to it.

Each connection begins with a line that says what the guest is to do with it, see `TALKER`.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path

PORT = 2035
TCP_PORT = 2036
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "vmw_vsock_virtio_transport")
PATIENCE = 60.0

# echo: what comes, until the end. count [N]: how many bytes came until the end, or N came. send N: so many bytes, and
# close at once. half N: so many bytes and the end, and on the console how many bytes came then. stall: read nothing.
# On the virtio-serial port the commands are echo N, count N and send N: it has no end.
# peer: the number of the other side. call P: connect to the host's port P, say "guest", end, and tell what came.
TALKER = """
import os, socket, threading, time

def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]

def take(s, count=0, most=1 << 62):
    while count < most and (data := s.recv(65536)):
        count += len(data)
    return count

def echo(s, rest, peer):
    s.sendall(rest)
    while data := s.recv(65536):
        s.sendall(data)

def serve(s, peer):
    with s:
        said = b""
        while b"\\n" not in said:
            data = s.recv(4096)
            if not data:
                return
            said += data
        line, _, rest = said.partition(b"\\n")
        words = line.decode().split()
        if words[0] == "echo":
            echo(s, rest, peer)
        elif words[0] == "count":
            s.sendall(b"%d\\n" % take(s, len(rest), *map(int, words[1:])))
        elif words[0] == "send":
            s.sendall(pattern(int(words[1])))
        elif words[0] == "half":
            s.sendall(pattern(int(words[1])))
            s.shutdown(socket.SHUT_WR)
            print("counted", take(s, len(rest)), flush=True)
        elif words[0] == "stall":
            s.sendall(b"stalled\\n")
            time.sleep(10000)
        elif words[0] == "peer":
            s.sendall(b"%d\\n" % peer[0])
        elif words[0] == "reboot":
            with open("/proc/sysrq-trigger", "w") as f:
                f.write("b")
        elif words[0] == "call":
            with socket.socket(socket.AF_VSOCK) as c:
                try:
                    c.connect((2, int(words[1])))
                    c.sendall(b"guest")
                    c.shutdown(socket.SHUT_WR)
                    answer = b""
                    while data := c.recv(4096):
                        answer += data
                except OSError as error:
                    answer = repr(error).encode()
            s.sendall(answer)

def listen(family, address):
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen(128)
        while True:
            s, peer = listener.accept()
            threading.Thread(target=serve, args=(s, peer), daemon=True).start()

def port():
    names = [name for name in os.listdir("/dev") if name.startswith("vport")]
    if not names:
        return
    f = os.open("/dev/" + names[0], os.O_RDWR)
    kept = b""

    def read():
        nonlocal kept
        while not kept:
            kept = os.read(f, 65536)
            if not kept:
                time.sleep(0.05)
        data, kept = kept, b""
        return data

    def write(data):
        data = memoryview(data)
        while data:
            data = data[os.write(f, data):]

    while True:
        line = b""
        while b"\\n" not in line:
            line += read()
        line, _, kept = line.partition(b"\\n")
        word, size = line.split()
        left = int(size)
        if word == b"send":
            write(pattern(left))
            continue
        while left:
            data = read()
            left -= len(data)
            if word == b"echo":
                write(data)
        if word == b"count":
            write(size + b"\\n")

for work in (lambda: listen(socket.AF_INET, ("", 2036)), port):
    threading.Thread(target=work, daemon=True).start()
threading.Thread(target=listen, args=(socket.AF_VSOCK, (0xFFFFFFFF, 2035)), daemon=True).start()
print("READY", flush=True)
threading.Event().wait()
"""


def pattern(size: int) -> bytes:
    """What the guest sends."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


class RefusedError(Exception):
    """Nothing listens in the guest, or there is no guest."""


def connect(path: Path, port: int = PORT) -> socket.socket:
    """Connect to the guest's port; raises RefusedError where that isn't to be had."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(PATIENCE)
    try:
        stream.connect(str(path))
        stream.sendall(b"CONNECT %d\n" % port)
        line = b""
        while not line.endswith(b"\n"):
            byte = stream.recv(1)
            if not byte:
                raise RefusedError(port)
            line += byte
        assert line.startswith(b"OK ")
        assert line[3:].strip().isdigit()
    except (OSError, RefusedError) as error:
        stream.close()
        raise RefusedError(port) from error
    return stream


def ask(path: Path, line: str, sent: bytes = b"", *, end: bool = True) -> bytes:
    """Connect, say the line, send, end, and return all that came."""
    with connect(path) as stream:
        stream.sendall(line.encode() + b"\n" + sent)
        if end:
            stream.shutdown(socket.SHUT_WR)
        return everything(stream)


def everything(stream: socket.socket) -> bytes:
    """All that comes until the end."""
    parts = []
    while part := stream.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def reached(path: Path, patience: float = PATIENCE) -> bool:
    """Try until the guest answers; False where it doesn't."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with suppress(RefusedError):
            if ask(path, "echo", b"hello") == b"hello":
                return True
        time.sleep(0.1)
    return False
