"""Trying the recognisers and the reader on a folder of labelled screens.

The folder has `phases.json`, {name: phase} for NAME.png, or `index.jsonl`, one {"file": ..., "phase": ...} a line.
A phase of null says that none fits. Where NAME.txt lies beside NAME.png it is the true text of the screen, unless
it is empty or says TODO.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reflexarc.errors import ConfigError
from reflexarc.observation import CONFIDENT, UNKNOWN
from reflexarc.plainfiles import read_plain
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recogniser import Recognisers

NONE = "none"
_MAX_INDEX = 16 << 20
_MAX_TRUTH = 1 << 16
_RULES = re.compile("[\u2500-\u259f]")


@dataclass(frozen=True, slots=True)
class Label:
    """A picture and the phase it shows; None where it shows none that is known."""

    file: Path
    phase: str | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a labelled picture was taken for.

    ms: CPU time of one reading by a ladder that met no frame before. wrong, length: characters of the true text
    that were read wrong, and how many it has; both 0 where there is none.
    """

    label: Label
    phase: str
    confidence: float
    right: bool
    ms: float
    wrong: int
    length: int

    @property
    def confident_wrong(self) -> bool:
        return self.phase != UNKNOWN and not self.right and self.confidence >= CONFIDENT


def labels(folder: Path) -> list[Label]:
    """The labelled pictures of a folder.

    Raises ConfigError where the folder or its index is missing or broken.
    """
    if not folder.is_dir():
        raise ConfigError("there is no such folder", path=folder)
    index, phases = folder / "index.jsonl", folder / "phases.json"
    if index.is_file():
        found = [
            _entry(line, index, at) for at, line in enumerate(_text(index).splitlines(), 1) if line.strip()
        ]
    elif phases.is_file():
        found = [(f"{name}.png", phase) for name, phase in _mapping(phases).items()]
        for name, phase in found:
            _check(name, phase, phases, None)
    else:
        raise ConfigError("neither index.jsonl nor phases.json is in this folder", path=folder)
    if not found:
        raise ConfigError("the index names no pictures", path=index if index.is_file() else phases)
    return [Label(folder / name, phase) for name, phase in found]


def judge(chosen: Iterable[Label], recognisers: Recognisers) -> Iterator[Result]:
    """Classify each picture by itself, the exact rungs only; raises ConfigError for one that can't be read."""
    for label in chosen:
        frame = load_frame(label.file)
        ladder = Ladder(recognisers)
        start = time.thread_time()
        seen = ladder.read(Readings(at=0.0, frame=frame))
        ms = (time.thread_time() - start) * 1000
        right = bool(label.phase) and recognisers.phases.is_a(seen.phase, label.phase or "")
        wrong, length = _errors(label.file.with_suffix(".txt"), seen.text)
        yield Result(label, seen.phase, seen.confidence, right, ms, wrong, length)


def summary(results: Iterable[Result]) -> dict[str, object]:
    """The figures of a trial: n, answered, right, rightly_unknown, confident_wrong, cer, confusion, ms, mistakes.

    rightly_unknown: how many were left unknown whose label says that no phase fits.
    cer: share of the characters read wrong, None where no true text lies beside the pictures.
    confusion: label -> answer -> how often. mistakes: the files of the confident mistakes.
    """
    judged = list(results)
    confusion: dict[str, Counter[str]] = {}
    for result in judged:
        confusion.setdefault(result.label.phase or NONE, Counter())[result.phase] += 1
    length = sum(result.length for result in judged)
    spent = sorted(result.ms for result in judged) or [0.0]
    mistakes = [result for result in judged if result.confident_wrong]
    return {
        "n": len(judged),
        "answered": sum(result.phase != UNKNOWN for result in judged),
        "right": sum(result.right for result in judged),
        "rightly_unknown": sum(r.label.phase is None and r.phase == UNKNOWN for r in judged),
        "confident_wrong": len(mistakes),
        "cer": sum(result.wrong for result in judged) / length if length else None,
        "characters": length,
        "confusion": {label: dict(answers) for label, answers in sorted(confusion.items())},
        "ms": {
            "median": round(float(np.median(spent)), 3),
            "p90": round(float(np.percentile(spent, 90)), 3),
            "max": round(spent[-1], 3),
        },
        "mistakes": [
            {"file": result.label.file.name, "phase": result.label.phase, "answer": result.phase}
            for result in mistakes
        ],
    }


def character_errors(truth: str, read: str) -> tuple[int, int]:
    """Edits from the true text to the one read, and the length of the true one.

    Layout is no text: rules and blocks count as blanks, and a run of blanks and line ends as one.
    """
    wanted, found = _plain(truth), _plain(read)
    return edits(wanted, found), len(wanted)


def _errors(path: Path, read: str) -> tuple[int, int]:
    """The errors against a file of true text; none where it is missing, empty or still to be written."""
    truth = _text(path, _MAX_TRUTH) if path.is_file() else ""
    return character_errors(truth, read) if truth.strip() not in ("", "TODO") else (0, 0)


def _plain(text: str) -> str:
    return " ".join(_RULES.sub(" ", text).split())


def edits(truth: str, read: str) -> int:
    """The least number of characters to put in, take out or replace to make one text of another."""
    if truth == read:
        return 0
    codes = np.array([ord(character) for character in read], np.int64)
    steps = np.arange(len(codes) + 1)
    costs = steps.copy()
    for character in truth:
        best = np.minimum(costs[1:] + 1, costs[:-1] + (codes != ord(character)))
        costs = np.minimum.accumulate(np.concatenate([[costs[0] + 1], best]) - steps) + steps
    return int(costs[-1])


def _entry(line: str, path: Path, number: int) -> tuple[str, str | None]:
    entry = _json(line, path, number)
    if not isinstance(entry, dict) or "file" not in entry or "phase" not in entry:
        raise ConfigError("a line is an object with `file` and `phase`", path=path, line=number)
    _check(entry["file"], entry["phase"], path, number)
    return entry["file"], entry["phase"]


def _mapping(path: Path) -> dict[str, str | None]:
    loaded = _json(_text(path), path, None)
    if not isinstance(loaded, dict):
        raise ConfigError("an object with a phase for each name is expected", path=path)
    return loaded


def _check(name: object, phase: object, path: Path, line: int | None) -> None:
    """Raise ConfigError unless a label is a file of the folder and a phase or None."""
    if (
        not isinstance(name, str)
        or not name
        or "\0" in name
        or Path(name).is_absolute()
        or ".." in Path(name).parts
    ):
        raise ConfigError(f"{name!r} is no file of this folder", path=path, line=line)
    if phase is not None and not isinstance(phase, str):
        raise ConfigError(f"the phase of {name!r} is neither a text nor null", path=path, line=line)


def _json(text: str, path: Path, line: int | None) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is not JSON: {error}", path=path, line=line) from error


def _text(path: Path, limit: int = _MAX_INDEX) -> str:
    try:
        raw = read_plain(path, limit)
        if len(raw) > limit:
            raise ConfigError(f"the file is larger than {limit >> 10} KiB", path=path)
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file can't be read: {error}", path=path) from error
