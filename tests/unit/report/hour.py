"""A run of an hour, made up: many steps, thousands of phases, a gallery of noisy frames, screens full of text."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tests.unit.report.conftest import story_of

from reflexarc.machine.frame import Frame, Pixels
from reflexarc.observation import Observation, ScreenText
from reflexarc.playbook.events import Counted, Observed, Replied, Started
from reflexarc.report.story import Story
from reflexarc.runs.gallery import INDEX, Index, Kept, encoded
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.sensing.recognise import load_recognisers

STEPS, LOOKS, FRAMES, SECONDS = 40, 25, 200, 3600
FULL = ScreenText(tuple("<&>\"'" * 16 for _ in range(60)))


def hour(root: Path) -> Story:
    """Write the run under `root`, and tell its story."""
    phases = load_recognisers().phases
    steps = [{"name": f"step {n}", "wait_for": "login_prompt", "timeout": 7200} for n in range(STEPS)]
    playbook = {"name": "an hour", "on_unknown": "wait", "unknown_after": 9999, "steps": steps}
    journal = Journal(root / "runs.sqlite")
    ledger = Ledger.begin(journal, Started(0.0, "hour", "lab", playbook, tuple(phases.values())))
    seen: list[float] = []
    for number in range(STEPS * LOOKS):
        at = (number + 1) * SECONDS / (STEPS * LOOKS)
        last = number % LOOKS == LOOKS - 1
        phase = (
            "login_prompt"
            if last
            else ("crash_screen" if number % 500 == 7 else ("booting", "blank")[number % 2])
        )
        ledger.record(
            Observed(
                at,
                Observation(
                    phase, 1.0, "text", at, at, origin="text", complete=True, screen=FULL, frame=number
                ),
            )
        )
        seen.append(at)
        if ledger.state.escalation is not None:
            ledger.record(Replied(at, ledger.state.escalation.id, "resume", by="somebody"))
    ledger.note(Counted(SECONDS, {"text": 100_000, "unchanged": 20_000}))
    journal.close()
    _spread(root / "runs.sqlite")
    _gallery(root / "runs" / "hour", seen)
    return story_of(root, "hour")


def _spread(path: Path) -> None:
    """Give the events the wall times of an hour: evenly, by their numbers."""
    with sqlite3.connect(path) as db:
        last = db.execute("SELECT MAX(number) FROM events").fetchone()[0]
        db.execute("UPDATE events SET wall = 1e9 + number * ? / ?", (float(SECONDS), last))


def _desktop() -> Pixels:
    """A wallpaper with grain, windows, and what could be text in them."""
    random = np.random.default_rng(2)
    rows, columns = np.mgrid[0:400, 0:640].astype(np.uint32)
    pixels: Pixels = (
        (rows // 4 << 16) | (columns // 6 << 8) | random.integers(90, 110, (400, 640), dtype=np.uint32)
    )
    for top, left in random.integers(0, 300, (5, 2)):
        window = pixels[top : top + 130, left : left + 210]
        window[:] = 0xF4F4F4
        window[20:-20:3, 12:-12] = np.where(
            random.random(window[20:-20:3, 12:-12].shape) < 0.3, 0x202020, 0xF4F4F4
        )
    return pixels


def _gallery(folder: Path, seen: list[float]) -> None:
    folder.mkdir(parents=True)
    picture = encoded(Frame(_desktop(), 0.0, 1))
    kept = [Kept(seen[n * len(seen) // FRAMES], f"phase-{n}.webp", 640, 400) for n in range(FRAMES)]
    for frame in kept:
        (folder / frame.ref).write_bytes(picture)
    (folder / INDEX).write_text(json.dumps(asdict(Index(tuple(kept), 900, 3))))
