"""Reading a table of the inventory: each mistake is a ConfigError that says where it is and what to do."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from reflexarc.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    """A table; `where` names it in errors ("machine 'lab1', qemu"), paths are taken relative to `folder`."""

    values: Mapping[str, object]
    where: str
    folder: Path

    def only(self, known: Collection[str]) -> None:
        """Raise ConfigError where there is a key that isn't known."""
        for key in self.values:
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise self.mistake(key, f"there is no such setting; {hint}")

    def mistake(self, key: object, problem: str) -> ConfigError:
        return ConfigError(f"{self.where}.{key}: {problem}")

    def text(self, key: str, default: str) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.mistake(key, f"must be a text in quotes, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(one, str) and "\0" not in one for one in value):
            return tuple(value)
        raise self.mistake(key, f'must be a list of texts such as ["..."], not {value!r}')

    def choice(self, key: str, default: str, choices: Collection[str]) -> str:
        value = self.text(key, default)
        if value not in choices:
            near = get_close_matches(value, choices, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise self.mistake(key, f"must be one of {', '.join(choices)}, not {value!r}{hint}")
        return value

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.mistake(key, f"must be a whole number, not {value!r}")
        if not low <= value <= high:
            raise self.mistake(key, f"must be from {low} to {high}, not {value}")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.mistake(key, f"must be true or false, not {value!r}")
        return value

    def path(self, key: str) -> Path:
        return (self.folder / Path(self.text(key, "")).expanduser()).absolute()

    def file(self, key: str) -> Path:
        path = self.path(key)
        if not path.is_file():
            raise self.mistake(key, f"there is no file {path}; create it or correct the path")
        if not os.access(path, os.R_OK):
            raise self.mistake(key, f"the file {path} can't be read; change its permissions")
        return path

    def entries(self, one: str, many: str, shorthand: str) -> list[tuple[Settings, str]]:
        """The tables at `one`, a single entry, or at `many`, a list; each with the key to name in errors.

        An entry that is a text is the table that has just that text at `shorthand`.
        """
        if one in self.values and many in self.values:
            raise self.mistake(many, f"{one} is given, too; put that entry into the list")
        if many not in self.values:
            found = [(one, self.values[one])] if one in self.values else []
        else:
            listed = self.values[many]
            if not isinstance(listed, list):
                raise self.mistake(many, f"must be a list, not {listed!r}")
            found = [(f"{many}[{number}]", value) for number, value in enumerate(listed)]
        return [(self._entry(key, value, shorthand), key) for key, value in found]

    def _entry(self, key: str, value: object, shorthand: str) -> Settings:
        if isinstance(value, str):
            if not value or "\0" in value:
                raise self.mistake(key, f"must be a text in quotes, not {value!r}")
            return Settings({shorthand: value}, f"{self.where}.{key}", self.folder)
        if isinstance(value, dict):
            return Settings(value, f"{self.where}.{key}", self.folder)
        raise self.mistake(key, f"must be a text in quotes or a table, not {value!r}")
