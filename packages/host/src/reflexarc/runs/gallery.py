"""The frames in which a run saw its machine enter a phase, or a wait end: a bounded, indexed gallery in its folder.

`note` costs the reflex nothing: it keeps a reference. Frames are encoded in a thread, while the run waits.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from reflexarc.machine.frame import Frame
from reflexarc.runs.artifacts import fingerprint

INDEX = "frames.json"
MAX_FRAMES = 200
MAX_BYTES = 40_000_000
MAX_SIDE = 2560
WAITING_FRAMES = 8
LOSSLESS_COLOURS = 256


@dataclass(frozen=True)
class Kept:
    """A stored frame. at: the `at` of the event in which the run saw it. width, height: of the screen, in pixels."""

    at: float
    ref: str
    width: int
    height: int


@dataclass(frozen=True)
class Index:
    """What a gallery holds. thinned: frames given up for newer ones; dropped: frames that were never stored."""

    frames: tuple[Kept, ...] = ()
    thinned: int = 0
    dropped: int = 0


def read_index(folder: Path) -> Index:
    """The gallery of a run's folder as it stands; empty where there is none or it can't be read."""
    try:
        data = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        frames = tuple(
            Kept(float(f["at"]), str(f["ref"]), int(f["width"]), int(f["height"])) for f in data["frames"]
        )
        return Index(frames, int(data["thinned"]), int(data["dropped"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Index()


class Gallery:
    """Writes the gallery of one run; goes on with what an earlier process left.

    It never fails a run: a frame that can't be stored is counted as dropped.
    """

    def __init__(self, folder: Path, *, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._noted: deque[tuple[float, Frame]] = deque()
        self._index = read_index(folder)
        self._missed = 0
        self._pool: ThreadPoolExecutor | None = None
        self._work: Future[None] | None = None

    def note(self, at: float, frame: Frame) -> None:
        """Take note of a frame to be stored; where too many wait for that, it is dropped and counted."""
        if len(self._noted) >= WAITING_FRAMES:
            self._missed += 1
        else:
            self._noted.append((at, frame))

    def forget(self, frame: Frame) -> None:
        """Remove what is stored of a picture, and what was noted; it shows what nothing may show."""
        self._noted.clear()
        self._settle()
        ref = _name(frame)
        kept = tuple(one for one in self._index.frames if one.ref != ref)
        gone = len(self._index.frames) - len(kept)
        if not gone:
            return
        self._index = Index(kept, self._index.thinned, self._index.dropped + gone)
        self._write_index()
        with suppress(OSError):
            (self._folder / ref).unlink()

    def develop(self) -> None:
        """Store in the background what was noted; does nothing while that is still under way."""
        if not (self._noted or self._missed) or (self._work is not None and not self._work.done()):
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "gallery", initializer=yielding)
        batch = [self._noted.popleft() for _ in range(len(self._noted))]
        missed, self._missed = self._missed, 0
        self._work = self._pool.submit(self._store, batch, missed)

    def finish(self) -> None:
        """Return once everything noted is stored."""
        self._settle()
        self.develop()
        self._settle()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _settle(self) -> None:
        if self._work is not None:
            self._work.result()
            self._work = None

    def _store(self, batch: Sequence[tuple[float, Frame]], missed: int) -> None:
        frames, dropped = list(self._index.frames), self._index.dropped + missed
        for at, frame in batch:
            try:
                frames.append(Kept(at, self._written(frame), frame.width, frame.height))
            except (OSError, ValueError, MemoryError):
                dropped += 1
        kept = self._thinned(frames)
        thinned = self._index.thinned + len(frames) - len(kept)
        self._index = Index(tuple(kept), thinned, dropped)
        self._write_index()
        for ref in {f.ref for f in frames} - {f.ref for f in kept}:
            with suppress(OSError):
                (self._folder / ref).unlink()

    def _written(self, frame: Frame) -> str:
        """The file of the frame's content, written unless it is there."""
        target = self._folder / _name(frame)
        if not target.exists():
            part = target.with_suffix(".part")
            part.write_bytes(encoded(frame))
            part.replace(target)
        return target.name

    def _thinned(self, frames: list[Kept]) -> list[Kept]:
        """Drop every second frame of the older half until the rest fits: the past stays, with less detail."""
        sizes = {f.ref: _size(self._folder / f.ref) for f in frames}
        while len(frames) > 3 and (
            len(frames) > self._max_frames
            or sum(sizes[ref] for ref in {f.ref for f in frames}) > self._max_bytes
        ):
            half = len(frames) // 2
            frames = frames[:half:2] + frames[half:]
        return frames

    def _write_index(self) -> None:
        target = self._folder / INDEX
        part = target.with_suffix(".part")
        try:
            part.write_text(json.dumps(asdict(self._index)), encoding="utf-8")
            os.replace(part, target)
        except OSError:
            with suppress(OSError):
                part.unlink()


def _name(frame: Frame) -> str:
    return f"phase-{fingerprint(frame)}.webp"


def yielding() -> None:
    """Let everything else go first: on Linux a thread has a niceness of its own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def encoded(frame: Frame, side: int = MAX_SIDE) -> bytes:
    """A frame as WebP: exact where it has few colours, as text screens do; its longer side at most `side` pixels."""
    image = frame.image()
    few = image.getcolors(LOSSLESS_COLOURS) is not None
    image.thumbnail((side, side))
    out = io.BytesIO()
    if few:
        image.save(out, "WEBP", lossless=True, quality=20, method=0)
    else:
        image.save(out, "WEBP", quality=80, method=2)
    return out.getvalue()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
