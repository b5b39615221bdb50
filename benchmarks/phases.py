"""Measure the recognition of phases on labelled screens, beside the same recognisers fed with Tesseract's text.

    python -m benchmarks.phases

Own screens (tests/screens) are always there; those beside the repository (../shared/screens/boot, real) are taken
where they are. Prints a table, and as its last line one JSON object. Times are CPU time of one thread, each screen
met for the first time. The peer sees own screens only: it takes about a second for each.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_THREAD_LIMIT", "1")

import numpy as np
import tesserocr
from rich.console import Console
from rich.progress import track
from rich.table import Table

from reflexarc.observation import CONFIDENT, UNKNOWN, ScreenText
from reflexarc.sensing.evidence import Page
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.trial import Label, Result, character_errors, judge, labels, summary

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "own": ROOT / "tests" / "screens",
    "boot": ROOT.parent / "shared" / "screens" / "boot",
    "real": ROOT.parent / "shared" / "screens" / "real",
}
TESSDATA = Path(os.environ.get("TESSDATA_PREFIX", "/usr/share/tesseract-ocr/5/tessdata"))
SHOWN = ("n", "answered", "right", "rightly_unknown", "confident_wrong", "cer", "ms")


def ours(folder: Path, recognisers: Recognisers, name: str) -> dict[str, object]:
    """The figures of one folder."""
    chosen = labels(folder)
    # The first screen of all loads the tables of glyphs.
    list(judge(chosen[:1], recognisers))
    console = Console(stderr=True)
    return summary(track(judge(chosen, recognisers), name, total=len(chosen), console=console))


def peer(folder: Path, recognisers: Recognisers) -> dict[str, object]:
    """The figures of the same recognisers on what Tesseract reads."""
    with tesserocr.PyTessBaseAPI(path=str(TESSDATA), lang="eng", psm=tesserocr.PSM.SINGLE_BLOCK) as reader:
        chosen = labels(folder)
        results = track(chosen, "Tesseract", console=Console(stderr=True))
        return summary(_with(reader, label, recognisers) for label in results)


def _with(reader: tesserocr.PyTessBaseAPI, label: Label, recognisers: Recognisers) -> Result:
    image = load_frame(label.file).image()
    start = time.thread_time()
    reader.SetImage(image)
    text = str(reader.GetUTF8Text())
    verdict = recognisers.of_screen(Page(ScreenText(tuple(text.splitlines()))))
    ms = (time.thread_time() - start) * 1000
    sure = verdict is not None and verdict.confidence >= CONFIDENT
    phase = verdict.phase if verdict and sure else UNKNOWN
    truth = label.file.with_suffix(".txt")
    wrong, length = character_errors(truth.read_text(), text) if truth.is_file() else (0, 0)
    right = bool(label.phase) and recognisers.phases.is_a(phase, label.phase or "")
    return Result(label, phase, verdict.confidence if verdict else 0.0, right, ms, wrong, length)


def main() -> None:
    recognisers = load_recognisers()
    figures = {name: ours(folder, recognisers, name) for name, folder in FOLDERS.items() if folder.is_dir()}
    peers = {
        f"tesseract {tesserocr.tesseract_version().split()[1]}": {"own": peer(FOLDERS["own"], recognisers)}
    }
    table = Table("figure", "value", title="phases")
    for name, value in _rows(figures, *peers.values()):
        table.add_row(name, value)
    Console().print(table)
    machine = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    print(json.dumps({"name": "phases", "figures": figures, "peers": peers, "machine": machine}))


def _rows(
    figures: dict[str, dict[str, object]], theirs: dict[str, dict[str, object]]
) -> Iterator[tuple[str, str]]:
    for prefix, group in (("", figures), ("Tesseract's text: ", theirs)):
        for folder, found in group.items():
            for key in SHOWN:
                yield f"{prefix}{folder}: {key}", str(found[key])


if __name__ == "__main__":
    main()
