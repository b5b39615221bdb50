"""Measure the exact console reader and the text recognisers, beside Tesseract on the same frames.

    python benchmarks/reader.py

Needs the screens beside the repository (../shared/screens) and the package tesserocr with English data. Prints a
table, and as its last line one JSON object. Times are CPU time of one thread, warm.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_THREAD_LIMIT", "1")

import numpy as np
import tesserocr
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table

from reflexarc.machine.frame import Frame, Pixels, pixels_of
from reflexarc.sensing.console import ConsoleReader
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.text import TextRung
from reflexarc.sensing.trial import edits

SCREENS = Path(__file__).parents[1].parent / "shared" / "screens"
TESSDATA = Path(os.environ.get("TESSDATA_PREFIX", "/usr/share/tesseract-ocr/5/tessdata"))
REPEATS = 200
PEER_REPEATS = 3
EXACT = ("vga", "vcs")
# Labels that the pictures contradict: a repeat of the command line's screen, a login prompt already there, black.
SHOWN = {"10_grub_text_edit": "grub_cmdline", "14_linux_boot_text": "login_prompt", "31_uefi_setup": "blank"}
TIMED = {
    "720x400": "14_linux_boot_text",
    "1024x768": "22_dmesg_fb1024x768",
    "1280x1024": "25_dmesg_fb1280x1024",
}


@dataclass(frozen=True)
class Screen:
    """A screen with its true text."""

    name: str
    image: Image.Image
    pixels: Pixels
    truth: str
    exact: bool


@dataclass
class Score:
    """Characters wrong of characters there."""

    wrong: int = 0
    length: int = 0

    def add(self, truth: str, read: str) -> None:
        self.wrong += edits(truth, read)
        self.length += len(truth)

    @property
    def rate(self) -> float:
        return self.wrong / self.length if self.length else 0.0


@dataclass
class Outcome:
    """How screens were recognised; `wrong` lists the confident mistakes."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def plain(text: str) -> str:
    """Text without rules and layout, quotes of one kind: what OCR can be expected to give."""
    kept = "".join(" " if "─" <= character <= "▟" else character for character in text)
    return " ".join(kept.translate(str.maketrans("‘’`“”", "'''\"\"")).split())


def boot_screens() -> list[Screen]:
    """The text screens whose truth is known."""
    screens = []
    for path in sorted((SCREENS / "boot").glob("*.png")):
        truth = path.with_suffix(".txt").read_text()
        kind = json.loads(path.with_suffix(".json").read_text())["truth"]
        if truth.strip() and truth.strip() != "TODO":
            image = Image.open(path).convert("RGB")
            screens.append(Screen(path.stem, image, pixels_of(image), truth, kind in EXACT))
    return screens


def strict_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")


def accuracy(screens: Iterable[Screen], peer: tesserocr.PyTessBaseAPI) -> dict[str, float]:
    """Error rates of both on the same frames, and of the reader cell by cell where the truth allows it."""
    cells, ours, theirs = Score(), Score(), Score()
    for screen in track(list(screens), "reading", console=Console(stderr=True)):
        read = ConsoleReader().read(Frame(screen.pixels, 0.0, 1))
        text = read.text if read else ""
        if screen.exact:
            cells.add(strict_lines(screen.truth), strict_lines(text))
        ours.add(plain(screen.truth), plain(text))
        peer.SetImage(screen.image)
        theirs.add(plain(screen.truth), plain(peer.GetUTF8Text()))
    return {
        "cer_exact": cells.rate,
        "characters_exact": cells.length,
        "cer_plain": ours.rate,
        "peer": theirs.rate,
    }


def milliseconds(action: Callable[[int], object], repeats: int) -> dict[str, float]:
    """Median and 90th percentile of the CPU time of an action that is given the number of the repetition."""
    action(0)
    spent = []
    for number in range(1, repeats + 1):
        start = time.thread_time()
        action(number)
        spent.append((time.thread_time() - start) * 1000)
    return {"median": float(np.median(spent)), "p90": float(np.percentile(spent, 90)), "max": max(spent)}


def full_frames(screen: Screen) -> dict[str, float]:
    """Every pixel of a frame changed since the one before."""
    reader = ConsoleReader()
    frames = [Frame(screen.pixels ^ np.uint32(tint), 0.0, tint) for tint in (0, 1)]
    return milliseconds(lambda number: reader.read(frames[number % 2]), REPEATS)


def strips(screen: Screen) -> dict[str, float]:
    """One row of cells changed since the frame before."""
    reader = ConsoleReader()
    edited = screen.pixels.copy()
    edited[160:176] = np.roll(edited[160:176], 72, axis=1)
    frames = [Frame(pixels, 0.0, at) for at, pixels in enumerate((screen.pixels, edited))]
    return milliseconds(lambda number: reader.read(frames[number % 2]), REPEATS)


def observed(screen: Screen, *, still: bool) -> dict[str, float]:
    """The whole ladder, on a frame that changed in every pixel or did not change."""
    ladder = Ladder(load_recognisers())
    tints = (0, 0) if still else (0, 1)
    pictures = [screen.pixels ^ np.uint32(tint) for tint in tints]
    return milliseconds(
        lambda number: ladder.read(Readings(float(number), None, Frame(pictures[number % 2], 0.0, number))),
        REPEATS,
    )


def rejections(pictures: Sequence[Pixels]) -> dict[str, float]:
    """Graphical screens, each met for the first time, by all that reads and recognises."""
    recognisers = load_recognisers()
    rungs = [TextRung(recognisers) for _ in range(len(pictures) + 1)]
    return milliseconds(
        lambda number: rungs[number].read(Frame(pictures[number % len(pictures)], 0.0, number)),
        len(pictures),
    )


def rejections_again(picture: Pixels) -> dict[str, float]:
    """A graphical screen on which little changes after it was rejected."""
    rung = TextRung(load_recognisers())
    clock = picture.copy()
    clock[8:24, -80:-8] ^= np.uint32(0xFFFFFF)
    frames = [Frame(pixels, 0.0, at) for at, pixels in enumerate((picture, clock))]
    return milliseconds(lambda number: rung.read(frames[number % 2]), REPEATS)


def desktops(size: tuple[int, int]) -> list[Pixels]:
    """Desktops of the data set, brought to a size without mixing their colours."""
    images = (Image.open(path) for path in sorted((SCREENS / "real").glob("desktop_*.png")))
    return [pixels_of(image.convert("RGB").resize(size, Image.Resampling.NEAREST)) for image in images]


def labelled(folder: str) -> list[tuple[str, str | None]]:
    """(file, phase) of the screens of a folder, labels that are wrong set right."""
    if folder == "boot":
        phases = json.loads((SCREENS / "boot" / "phases.json").read_text())
        return [(f"{name}.png", SHOWN.get(name, phase)) for name, phase in phases.items()]
    lines = (SCREENS / "real" / "index.jsonl").read_text().splitlines()
    return [(entry["file"], entry["phase"]) for entry in map(json.loads, lines)]


def recognition(folder: str) -> Outcome:
    """Classify each screen by itself with the exact rungs only."""
    recognisers, outcome = load_recognisers(), Outcome()
    for name, phase in track(labelled(folder), f"recognising {folder}", console=Console(stderr=True)):
        pixels = pixels_of(Image.open(SCREENS / folder / name))
        observation = Ladder(recognisers).read(Readings(0.0, None, Frame(pixels, 0.0, 1)))
        if observation.phase == "unknown":
            outcome.counts["unknown"] += 1
        elif phase and recognisers.phases.is_a(observation.phase, phase):
            outcome.counts["right"] += 1
        else:
            outcome.counts["confident_wrong"] += 1
            outcome.wrong.append(f"{name}: {observation.phase}, labelled {phase}")
    return outcome


def main() -> None:
    if not SCREENS.is_dir():
        sys.exit(f"the screens are not there: {SCREENS}")
    screens = boot_screens()
    by_name = {screen.name: screen for screen in screens}
    figures: dict[str, object] = {}
    peers: dict[str, object] = {}
    with tesserocr.PyTessBaseAPI(path=str(TESSDATA), lang="eng", psm=tesserocr.PSM.SINGLE_BLOCK) as peer:
        rates = accuracy(screens, peer)
        peer_rate = rates.pop("peer")
        figures["accuracy"] = rates
        timings: dict[str, dict[str, float]] = {}
        peer_timings: dict[str, dict[str, float]] = {}
        for size, name in track(TIMED.items(), "timing", console=Console(stderr=True)):
            screen = by_name[name]
            timings[f"full {size}"] = full_frames(screen)
            timings[f"strip {size}"] = strips(screen)
            timings[f"ladder, changed {size}"] = observed(screen, still=False)
            timings[f"ladder, unchanged {size}"] = observed(screen, still=True)

            def ocr(number: int, image: Image.Image = screen.image) -> str:
                peer.SetImage(image)
                return str(peer.GetUTF8Text())

            peer_timings[f"full {size}"] = milliseconds(ocr, PEER_REPEATS)
    for sides in ((640, 480), (1024, 768), (1280, 1024)):
        pictures = desktops(sides)
        name = f"{sides[0]}x{sides[1]}"
        timings[f"rejection {name}"] = rejections(pictures)
        timings[f"rejection, again {name}"] = rejections_again(pictures[0])
    figures["cpu_ms"] = timings
    for folder in ("boot", "real"):
        outcome = recognition(folder)
        figures[f"recognition_{folder}"] = {**outcome.counts, "mistakes": outcome.wrong}
    peers[f"tesseract {tesserocr.tesseract_version().split()[1]}"] = {
        "cer_plain": peer_rate,
        "cpu_ms": peer_timings,
        "times_slower": {
            size: spent["median"] / timings[size]["median"] for size, spent in peer_timings.items()
        },
    }
    report(figures, peers)


def report(figures: dict[str, object], peers: dict[str, object]) -> None:
    """Print the table, then the JSON line."""
    table = Table("figure", "value", title="console reader")
    for name, value in _flat("", {**figures, **peers}):
        table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    Console().print(table)
    machine = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    print(json.dumps({"name": "reader", "figures": figures, "peers": peers, "machine": machine}))


def _flat(prefix: str, values: dict[str, object]) -> Iterable[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}: ", value)
        else:
            yield f"{prefix}{name}", value


if __name__ == "__main__":
    main()
