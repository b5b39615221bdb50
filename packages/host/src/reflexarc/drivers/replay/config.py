"""The `replay` table of a machine's inventory entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from reflexarc.errors import ConfigError

_KEYS = ("recording", "speed")


@dataclass(frozen=True)
class ReplayConfig:
    """A folder with a recording, and how fast to play it: 0 plays the next entry whenever somebody waits."""

    recording: Path
    speed: float = 1.0

    @classmethod
    def parse(cls, table: Mapping[str, object], *, machine: str, folder: Path) -> ReplayConfig:
        """Check the table and return its values; the path is taken relative to `folder`.

        Raises ConfigError on the first mistake.
        """
        for key in table:
            if key not in _KEYS:
                near = get_close_matches(str(key), _KEYS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_KEYS)}"
                raise _mistake(machine, key, f"there is no such setting; {hint}")
        return cls(_recording(table, machine, folder), _speed(table, machine))


def _recording(table: Mapping[str, object], machine: str, folder: Path) -> Path:
    value = table.get("recording")
    if not isinstance(value, str) or not value or "\0" in value:
        raise _mistake(machine, "recording", f"must be the path of a folder, in quotes, not {value!r}")
    path = (folder / Path(value).expanduser()).absolute()
    if not (path / "recording.jsonl").is_file():
        raise _mistake(machine, "recording", f"there is no recording.jsonl in {path}; correct the path")
    return path


def _speed(table: Mapping[str, object], machine: str) -> float:
    value = table.get("speed", 1.0)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _mistake(machine, "speed", f"must be a number, not {value!r}")
    if not 0 <= value <= 1000:
        raise _mistake(machine, "speed", f"must be from 0 to 1000, not {value}")
    return float(value)


def _mistake(machine: str, key: object, problem: str) -> ConfigError:
    return ConfigError(f"machine {machine!r}, replay.{key}: {problem}")
