"""Recordings: a folder with `recording.jsonl`, one entry a line, and the frames it names.

A line is `{"at": seconds, ...}` with any of `frame` (a PNG file beside it), `power`, `serial` and `signal`.
With `on`, `{"key": "enter"}` or `{"operation": "power.on"}`, it is a reaction, its `at` counted from the input;
`then` holds the entries of a reaction that has several, `repeat` makes it serve again.

A line `{"guest": {...}}` says what answers inside: `commands` (line -> {stdout, stderr, status}), `files` (path ->
text), `apps` (names), `elements` (of the desktop's tree) and `agent` (answers, absent, hangs). An entry may have
`elements` and `agent`, too. An element is {ref, role, native, name, value, enabled, focused, area, actions, path}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from reflexarc.drivers.replay.config import ReplayConfig
from reflexarc.drivers.replay.inside import agent_of, elements_of, guest_of
from reflexarc.drivers.replay.script import Entry, Reaction, ReplayGuest, ReplayScript
from reflexarc.errors import ConfigError
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.keys import canonical

NAME = "recording.jsonl"
MAX_LINE = 1 << 20
MAX_LINES = 1_000_000

_ENTRY_KEYS = frozenset({"at", "frame", "power", "serial", "signal", "elements", "agent"})


def load(config: ReplayConfig) -> ReplayScript:
    """Read a recording; its frames are read when they are shown. Raises ConfigError with the line at fault."""
    entries: list[Entry] = []
    reactions: list[Reaction] = []
    guests: list[ReplayGuest] = []
    path = config.recording / NAME
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                try:
                    record = _record(line, number)
                    if "guest" in record:
                        guests.append(guest_of(record))
                    else:
                        _add(record, config.recording, entries, reactions)
                except (ValueError, ConfigError) as error:
                    raise ConfigError(str(error), path=path, line=number) from error
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", path=path) from error
    guest = guests[-1] if guests else None
    return ReplayScript(tuple(entries), tuple(reactions), speed=config.speed, guest=guest)


def _record(line: bytes, number: int) -> Mapping[str, object]:
    if len(line) > MAX_LINE or number > MAX_LINES:
        raise ValueError(f"a line has at most {MAX_LINE} bytes, a recording {MAX_LINES} lines")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    return record


def _add(record: Mapping[str, object], folder: Path, entries: list[Entry], reactions: list[Reaction]) -> None:
    if "on" in record:
        reactions.append(_reaction(record, folder))
    else:
        entries.append(_entry(record, folder))


def _reaction(record: Mapping[str, object], folder: Path) -> Reaction:
    on, then = record["on"], record.get("then")
    if not isinstance(on, dict) or len(on) != 1 or not set(on) <= {"key", "operation"}:
        raise ValueError('`on` must be {"key": name} or {"operation": name}')
    name = next(iter(on.values()))
    repeat = record.get("repeat", False)
    if not isinstance(name, str) or not isinstance(repeat, bool):
        raise ValueError("`on` needs a name in quotes, `repeat` true or false")
    own = {key: value for key, value in record.items() if key not in ("on", "then", "repeat")}
    parts = [own] if then is None else then
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts) or (then and own):
        raise ValueError("`then` must be a list of entries, and stand for the reaction's own")
    steps = tuple(_entry(part, folder) for part in parts)
    if "key" in on:
        return Reaction(steps, key=canonical(name), repeat=repeat)
    return Reaction(steps, operation=name, repeat=repeat)


def _entry(record: Mapping[str, object], folder: Path) -> Entry:
    unknown = set(record) - _ENTRY_KEYS
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(map(str, unknown)))}")
    at, signal = record.get("at", 0.0), record.get("signal")
    if not isinstance(at, (int, float)) or isinstance(at, bool) or not 0 <= at < 1e9:
        raise ValueError(f"`at` must be seconds from 0, not {at!r}")
    if signal is not None and not isinstance(signal, bool):
        raise ValueError(f"`signal` must be true or false, not {signal!r}")
    frame, power = _text(record, "frame"), _text(record, "power")
    return Entry(
        at=float(at),
        frame=None if frame is None else _picture(frame, folder),
        power=None if power is None else PowerState(power),
        serial=_text(record, "serial"),
        signal=signal,
        elements=elements_of(record),
        agent=agent_of(record),
    )


def _text(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text in quotes, not {value!r}")
    return value


def _picture(name: str, folder: Path) -> Path:
    if Path(name).name != name or "\0" in name:
        raise ValueError(f"`frame` must name a file in the recording's folder, not {name!r}")
    path = folder / name
    if not path.is_file():
        raise ValueError(f"there is no frame {name!r}")
    return path
