"""The video of a run: the frames that its machine's screen gave, timed as they came, in one animated WebP file.

`note` costs the reflex nothing. Frames are encoded in a thread while the run waits; the file is written when the
run is held or ends, and a later process goes on with it.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from reflexarc.machine.frame import Frame
from reflexarc.observation import Observation
from reflexarc.runs.artifacts import KEPT
from reflexarc.runs.gallery import encoded, yielding
from reflexarc.runs.webp import Still, animation, bitstream_of, stills_of

VIDEO = KEPT["video"]
MAX_BYTES = 20_000_000
MAX_SHOTS = 3000
MAX_SIDE = 1280
WAITING_FRAMES = 16
# Of frames that come faster, the newest stands for all.
LEAST_GAP = 0.05

# Tells whether a secret is read in an observation.
IsSecret = Callable[[Observation], bool]


@dataclass(frozen=True)
class _Shot:
    """A frame that was encoded. at: seconds since the video's beginning."""

    at: float
    bitstream: bytes
    width: int
    height: int


def want(folder: Path) -> None:
    """Ask for a video of the run whose folder this is."""
    with suppress(OSError):
        (folder / VIDEO).touch(mode=0o600)


class Video:
    """Records one run. It never fails the run: what can't be encoded or written is left out."""

    def __init__(
        self, folder: Path, is_secret: IsSecret, *, max_bytes: int = MAX_BYTES, max_shots: int = MAX_SHOTS
    ) -> None:
        self._path = folder / VIDEO
        self._is_secret = is_secret
        self._max_bytes = max_bytes
        self._max_shots = max_shots
        self._noted: deque[tuple[Observation, Frame]] = deque()
        self._number: int | None = None
        self._shots, self._end = _read(self._path)
        self._began = 0.0
        self._pool: ThreadPoolExecutor | None = None
        self._work: Future[None] | None = None

    @classmethod
    def of(cls, folder: Path, is_secret: IsSecret) -> Video | None:
        """The video of a run, None where nobody asked for one."""
        return cls(folder, is_secret) if (folder / VIDEO).exists() else None

    def begin(self, now: float) -> None:
        """Go on from here: time that passed since the last `finish` is left out."""
        self._began = now

    def note(self, seen: Observation, frame: Frame) -> None:
        """Take note of what the screen shows now, to be encoded later."""
        if frame.number == self._number or not frame.signal:
            return
        self._number = frame.number
        crowded = len(self._noted) >= WAITING_FRAMES
        if self._noted and (crowded or frame.captured < self._noted[-1][1].captured + LEAST_GAP):
            self._noted.pop()
        self._noted.append((seen, frame))

    def develop(self, now: float) -> None:
        """Encode in the background what was noted, save what may still be superseded."""
        if self._work is not None and not self._work.done():
            return
        batch = []
        while self._noted and self._noted[0][1].captured + LEAST_GAP <= now:
            batch.append(self._noted.popleft())
        if batch:
            self._pool = self._pool or ThreadPoolExecutor(1, "video", initializer=yielding)
            self._work = self._pool.submit(self._encode, batch)

    def finish(self, now: float) -> None:
        """Write the video up to here."""
        self._settle()
        self.develop(now + LEAST_GAP)
        self._settle()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._end += now - self._began
        self._began = now
        self._write()

    def _settle(self) -> None:
        if self._work is not None:
            self._work.result()
            self._work = None

    def _encode(self, batch: Sequence[tuple[Observation, Frame]]) -> None:
        for seen, frame in batch:
            if self._is_secret(seen):
                continue
            with suppress(OSError, ValueError, MemoryError):
                file = encoded(frame, side=MAX_SIDE)
                with Image.open(io.BytesIO(file)) as image:
                    width, height = image.size
                at = self._end + max(0.0, frame.captured - self._began)
                self._shots.append(_Shot(at, bitstream_of(file), width, height))
        self._thin()

    def _thin(self) -> None:
        """Give up every second frame of the older half until the rest fits; the one before it shows longer."""
        while len(self._shots) > 3 and (
            len(self._shots) > self._max_shots
            or sum(len(shot.bitstream) for shot in self._shots) > self._max_bytes
        ):
            half = len(self._shots) // 2
            self._shots = self._shots[:half:2] + self._shots[half:]

    def _write(self) -> None:
        if not self._shots:
            return
        ends = [shot.at for shot in self._shots[1:]] + [self._end]
        stills = [
            Still(shot.bitstream, shot.width, shot.height, max(0.0, end - shot.at))
            for shot, end in zip(self._shots, ends, strict=True)
        ]
        part = self._path.with_suffix(".part")
        with suppress(OSError):
            part.write_bytes(animation(stills))
            part.replace(self._path)


def _read(path: Path) -> tuple[list[_Shot], float]:
    """What an earlier process recorded, and how long that is; nothing where it can't be read."""
    try:
        if path.stat().st_size > 2 * MAX_BYTES:
            return [], 0.0
        stills = stills_of(path.read_bytes())
    except (OSError, ValueError):
        return [], 0.0
    shots, at = [], 0.0
    for still in stills:
        shots.append(_Shot(at, still.bitstream, still.width, still.height))
        at += still.seconds
    return shots, at
