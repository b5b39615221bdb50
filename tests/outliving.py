"""A played machine that outlives the processes that drive it, and such processes: they may die at any place.

The machine is served on a Unix socket and keeps its own account of what it was sent, and by whom. Its drivers are
real processes on the real API, told to kill themselves at a place in their journal or after a thing they sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import ReplayScript
from reflexarc.errors import JournalError, MachineBusyError, RunError
from reflexarc.machine.capabilities import Capabilities, KeyEvent, PowerState
from reflexarc.machine.frame import Frame
from reflexarc.machine.guard import Guard
from reflexarc.machine.keyboard import KeysDown
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy
from reflexarc.playbook.events import Event
from reflexarc.playbook.state import RunState
from reflexarc.runs.journal import Journal
from reflexarc.runs.replies import Reply
from reflexarc.runs.session import Session
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.outliving"])
LOST, UNWRITTEN = 7, 8
RECOGNISERS = load_recognisers()


class Outliving:
    """The machine. sent: all it was sent, each with the process that sent it."""

    def __init__(self, socket: Path, script: ReplayScript) -> None:
        self.socket = socket
        self.sent: list[tuple[int, str]] = []
        self._script = script
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    @contextmanager
    def served(self) -> Iterator[Outliving]:
        """Serve it while the context lasts."""
        self._thread.start()
        self._ready.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    @property
    def operations(self) -> list[str]:
        """Operations and keys going down, in order."""
        return [what for _, what in self.sent if not what.startswith("key.up")]

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._machine = open_replay(self._script, machine="lab")
        server = await asyncio.start_unix_server(self._serve, self.socket)
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        screen, power = self._machine.screen, self._machine.power
        assert screen is not None
        assert power is not None
        frames = screen.frames()
        with suppress(ConnectionError, asyncio.CancelledError):
            while line := await reader.readline():
                match json.loads(line):
                    case ["power.state", *_]:
                        writer.write(json.dumps(await power.state()).encode() + b"\n")
                    case ["screenshot", *_]:
                        writer.write(_framed(await screen.screenshot()))
                    case ["frames", *_]:
                        writer.write(_framed(await anext(aiter(frames))))
                    case [process, *operation]:
                        await self._take(process, operation)
                        writer.write(b"null\n")
                await writer.drain()
        writer.close()

    async def _take(self, process: int, operation: Sequence[object]) -> None:
        power, keyboard = self._machine.power, self._machine.keyboard
        assert power is not None
        assert keyboard is not None
        match operation:
            case ["keys", events]:
                assert isinstance(events, list)
                self.sent += [(process, f"key.{'down' if down else 'up'}:{key}") for key, down in events]
                await keyboard.send([KeyEvent(key, down) for key, down in events])
            case [str(act)]:
                self.sent.append((process, f"power.{act}"))
                acts = {"on": power.on, "off": power.off, "reset": power.reset, "cycle": power.cycle}
                await acts[act]()


def _framed(frame: Frame) -> bytes:
    pixels = frame.pixels.astype("<u4").tobytes()
    return json.dumps([*frame.pixels.shape, frame.number, frame.signal]).encode() + b"\n" + pixels


class Line:
    """One connection to the machine; a call at a time."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def call(self, *words: object) -> object:
        async with self._turn:
            return json.loads((await self._sent(words)).decode())

    async def frame(self, what: str) -> Frame:
        async with self._turn:
            height, width, number, has_signal = json.loads(await self._sent([what]))
            reader, _ = self._streams or await self._open()
            raw = await reader.readexactly(height * width * 4)
        pixels = np.frombuffer(raw, "<u4").reshape(height, width).astype(np.uint32)
        return Frame(pixels, time.monotonic(), number, has_signal)

    async def _sent(self, words: Sequence[object]) -> bytes:
        reader, writer = self._streams or await self._open()
        writer.write(json.dumps(words).encode() + b"\n")
        return await reader.readline()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._streams = await asyncio.open_unix_connection(self._socket)
        return self._streams


@dataclass
class Far:
    """The machine as its drivers have it: `Power`, `Screen` and `Keyboard` over the socket.

    sent: told after each thing that the machine has taken.
    """

    socket: Path
    sent: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._calls, self._pushed = Line(self.socket), Line(self.socket)

    async def _act(self, *operation: object) -> None:
        await self._calls.call(os.getpid(), *operation)
        self.sent()

    async def state(self) -> PowerState:
        return PowerState(str(await self._calls.call("power.state")))

    async def on(self) -> None:
        await self._act("on")

    async def off(self) -> None:
        await self._act("off")

    async def shutdown(self, timeout: float) -> None:
        await self._act("off")

    async def reset(self) -> None:
        await self._act("reset")

    async def cycle(self) -> None:
        await self._act("cycle")

    async def screenshot(self) -> Frame:
        return await self._calls.frame("screenshot")

    async def frames(self) -> AsyncIterator[Frame]:
        while True:
            yield await self._pushed.frame("frames")

    def source(self) -> str:
        return "a socket"

    async def send(self, events: Sequence[KeyEvent]) -> None:
        await self._act("keys", [[event.key, event.down] for event in events])


@dataclass(frozen=True)
class Death:
    """Where a driver kills itself: before or after appending event `number`, or having sent `number` things."""

    place: str
    number: int

    def __str__(self) -> str:
        return f"{self.place} {self.number}"


class MortalJournal(Journal):
    """A journal whose process dies at an event."""

    death: Death | None = None
    appended = 0

    def append(
        self, number: int, event: Event, state: RunState, *, durable: bool = False, changed: bool = True
    ) -> None:
        self._die("before")
        super().append(number, event, state, durable=durable, changed=changed)
        self._die("after")
        self.appended += 1

    def _die(self, place: str) -> None:
        if self.death == Death(place, self.appended):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Drive:
    """What a driver does: begin the playbook, or take up the run and, where it is held, give the reply."""

    state: Path
    socket: Path
    playbook: Mapping[str, object] | None = None
    run_id: str = ""
    reply: Reply | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    grant: tuple[str, ...] = ()
    death: Death | None = None
    max_file: int | None = None

    def __call__(self) -> None:
        """Drive until the run is held or has ended; exit with LOST where another process has it.

        With a max_file no file may grow beyond so many bytes; what can't be written then stands in the file `error`,
        and the exit code is UNWRITTEN.
        """
        try:
            if self.max_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.max_file, resource.RLIM_INFINITY))
            asyncio.run(self.drive())
        except JournalError as error:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            (self.state / "error").write_text(str(error))
            sys.exit(UNWRITTEN)
        except (RunError, MachineBusyError):
            sys.exit(LOST)

    async def drive(self) -> None:
        async with self.session() as session:
            if self.playbook is not None:
                run = await session.begin(self.playbook, secret_values=self.secrets, grant=self.grant)
            else:
                run = session.take_up(self.run_id, secret_values=self.secrets)
            try:
                if self.reply is not None and run.escalation is not None:
                    run.reply(self.reply)
                await run.drive()
            finally:
                run.release()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """The machine, open as `open_session` opens one."""
        far = Far(self.socket, self._mourned())
        lent = Capabilities(power=far, screen=far, keyboard=far)
        machine = Machine("lab", lent, Guard("lab", Policy()), keys_down=KeysDown(self.state / "keys-down"))
        journal = MortalJournal(self.state / "runs.sqlite")
        journal.death = self.death
        lock = MachineLock(self.state / "lab.lock", "lab", "a driver")

        async def at_end(run_id: str) -> None:
            await asyncio.sleep(0)

        try:
            async with Watcher(machine.sensed, Ladder(RECOGNISERS), "lab") as watcher:
                yield Session(
                    machine, watcher, journal, RECOGNISERS.phases, self.state / "runs", lock, at_end,
                    lambda run_id: None, place="lab",
                )  # fmt: skip
        finally:
            lock.release()
            journal.close()

    def _mourned(self) -> Callable[[], None]:
        """Counts what was sent, and dies where it is to."""
        left = self.death.number if self.death is not None and self.death.place == "sent" else 0

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        return count


def run(drive: Drive) -> int:
    """Drive in a process of its own and return its exit code; negative: the signal that ended it."""
    return together([drive])[0]


def together(work: Sequence[Callable[[], None]]) -> list[int]:
    """Do each piece of work in a process of its own, all at the same time; their exit codes."""
    processes = [PROCESSES.Process(target=one) for one in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [code for process in processes if (code := process.exitcode) is not None]
