"""An agent in a process of its own, and a host that speaks to it over a socket."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import reflexarc_agent
import reflexarc_wire
from reflexarc_wire import Answer, HostEnd
from reflexarc_wire.frames import Credit, Exit, FromGuest, FromHost, NotStarted, Stderr, Stdout
from reflexarc_wire.replies import Failure, PingReply
from reflexarc_wire.requests import Exec, Ping, Request

SOURCES = [str(Path(package.__path__[0]).parent) for package in (reflexarc_agent, reflexarc_wire)]
PATIENCE = 20.0


@dataclass(frozen=True)
class Outcome:
    """What a command gave; `last` is its last frame."""

    stdout: bytes
    stderr: bytes
    last: Exit | NotStarted


class Host:
    """A host's end of one connection, blocking."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(PATIENCE)
        self.stream = stream
        self.end = HostEnd()

    def next(self) -> object:
        """Return the next message, None at the end of the stream."""
        while (found := self.end.next()) is None:
            data = self.stream.recv(1 << 16)
            if not data:
                return None
            self.end.feed(data)
        return found

    def ask(self, request: Request, id: str | int | None = None) -> object:  # noqa: A002
        """Ask and return the reply, a Failure where it failed."""
        self.stream.sendall(self.end.ask(request, id))
        answer = self.next()
        assert isinstance(answer, Answer), answer
        assert answer.id == id
        return answer.reply

    def refused(self, request: Request) -> Failure:
        """Ask for what fails, and return the Failure."""
        reply = self.ask(request)
        assert isinstance(reply, Failure), reply
        return reply

    def start(self, request: Exec, *frames: FromHost) -> None:
        self.stream.sendall(self.end.ask(request))
        self.send(*frames)

    def send(self, *frames: FromHost) -> None:
        self.stream.sendall(b"".join(self.end.send(frame) for frame in frames))

    def frame(self) -> FromGuest:
        found = self.next()
        assert found is not None, "the agent closed before the exit"
        assert not isinstance(found, Answer)
        return found  # type: ignore[return-value]

    def outcome(self) -> Outcome:
        """Read to the command's end."""
        stdout, stderr = bytearray(), bytearray()
        while True:
            frame = self.frame()
            if isinstance(frame, Stdout):
                stdout += frame.d
            elif isinstance(frame, Stderr):
                stderr += frame.d
            elif isinstance(frame, (Exit, NotStarted)):
                return Outcome(bytes(stdout), bytes(stderr), frame)

    def run(self, request: Exec, *frames: FromHost) -> Outcome:
        """Start a command and read to its end, sending the frames meanwhile."""
        self.start(request)
        sender = threading.Thread(target=self.send, args=frames)
        sender.start()
        try:
            return self.outcome()
        finally:
            sender.join()

    def line(self) -> bytes:
        """Read stdout up to the first newline."""
        found = b""
        while not found.endswith(b"\n"):
            frame = self.frame()
            if not isinstance(frame, Credit):
                assert isinstance(frame, Stdout), frame
                found += frame.d
        return found.strip()

    def close(self) -> None:
        self.stream.close()


@dataclass(frozen=True)
class Usage:
    """What a process holds."""

    threads: int
    descriptors: int
    children: int


class Agent:
    """A running agent that listens on the unix socket `path`."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self.process = process
        self.path = path

    def stream(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # With a timeout a full backlog would be an error at once.
        stream.connect(str(self.path))
        stream.settimeout(PATIENCE)
        return stream

    @contextmanager
    def host(self) -> Iterator[Host]:
        host = Host(self.stream())
        try:
            yield host
        finally:
            host.close()

    def run(self, request: Exec, *frames: FromHost) -> Outcome:
        with self.host() as host:
            return host.run(request, *frames)

    def usage(self) -> Usage:
        folder = Path(f"/proc/{self.process.pid}")
        tasks = list((folder / "task").iterdir())
        children = sum(len(read(task / "children").split()) for task in tasks)
        return Usage(len(tasks), len(list((folder / "fd").iterdir())), children)

    def resident_kib(self) -> int:
        """The most memory it ever held."""
        text = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(text.split("VmHWM:")[1].split()[0])

    def idle(self) -> Usage:
        """What the agent holds with one connection open and nothing else, as `until` finds it."""
        found: list[Usage] = []

        def settled() -> bool:
            found.append(self.usage())
            return found[-1].threads == len(("main", "accept", "connection")) and found[-1].children == 0

        assert self.until(settled), found[-1]
        return found[-1]

    def until(self, holds: Callable[[], bool]) -> bool:
        """Ask the agent for pings until the condition holds; False if it doesn't within PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            # Turned away while too many connections are open, it comes again.
            with suppress(ConnectionError), self.host() as host:
                while time.monotonic() < deadline and isinstance(host.ask(Ping()), PingReply):
                    if holds():
                        return True
        return False


def ended(pid: int) -> bool:
    """Wait for any process's end, and tell whether it came."""
    if sys.platform == "linux":
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([handle], [], [], PATIENCE)[0])
        finally:
            os.close(handle)
    else:
        raise NotImplementedError


def read(path: Path) -> str:
    """Read a file of /proc, nothing where the process has ended meanwhile."""
    try:
        return path.read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "reflexarc_agent", *arguments]


@contextmanager
def running(path: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> Iterator[Agent]:
    """Run an agent on a unix socket; what it says on stderr after its start must be nothing.

    It serves the desktop that `extra` names, and looks for none of its own: that could be anybody's.
    """
    process = subprocess.Popen(
        command("--unix", str(path), *([] if extra else ["--headless"]), *arguments),
        env={**environment(), **(extra or {})},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == f"reflexarc-agent: listening on unix:{path}\n"
        yield Agent(process, path)
    finally:
        process.terminate()
        rest = process.stderr.read()
        code = process.wait(PATIENCE)
        process.stderr.close()
    assert (rest, code) == ("", 0)
