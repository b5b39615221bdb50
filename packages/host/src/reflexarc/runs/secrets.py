"""Secrets: where their values come from, and keeping them out of everything that is written."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, quote_plus

from reflexarc.errors import ConfigError
from reflexarc.machine import keyring
from reflexarc.observation import Observation, ScreenText
from reflexarc.plainfiles import read_plain

SHORTEST = 3
LEAST_BEGINNING = 5
MASK = "*"
MAX_SIZE = 1 << 20
# The reference of a secret that was typed, or handed over by a program: no other process can find it again.
IN_MEMORY = "given by the caller"


def resolve(name: str, reference: str) -> str:
    """The value behind `env:NAME`, `file:PATH` or `keyring:NAME`.

    Raises ConfigError, which never holds the value, where there is none or it is too short to be masked.
    """
    kind, _, where = reference.partition(":")
    match kind:
        case "env":
            value = os.environ.get(where)
            if value is None:
                raise ConfigError(
                    f"the secret {name!r} is to come from the environment, and {where} is not set"
                )
        case "file":
            value = _from_file(name, Path(where))
        case "keyring":
            value = keyring.password(f"the secret {name!r}", where)
        case _:
            again = reference in ("", IN_MEMORY)
            what = "has to be given again" if again else "is given by where it is found, not as itself"
            raise ConfigError(
                f"the secret {name!r} {what}: --secret {name}=env:NAME, {name}=file:PATH or {name}=keyring:NAME"
            )
    return checked(name, value)


def _from_file(name: str, path: Path) -> str:
    try:
        raw = read_plain(path.expanduser(), MAX_SIZE)
        if len(raw) > MAX_SIZE:
            raise ConfigError(
                f"the secret {name!r} can't be read from its file: more than {MAX_SIZE >> 20} MiB"
            )
        return raw.decode("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such file, or not UTF-8 text"
        raise ConfigError(f"the secret {name!r} can't be read from its file: {reason}") from error


def checked(name: str, value: str) -> str:
    """The value; raises ConfigError where it is too short to be kept out of what is written."""
    if len(value) < SHORTEST:
        raise ConfigError(
            f"the secret {name!r} has fewer than {SHORTEST} characters and can't be kept out of the logs"
        )
    return value


def _forms(value: str) -> Iterator[str]:
    """What of a secret may be shown: the whole, its lines, and a beginning that is long enough to tell it."""
    yield value
    yield from _encoded(value)
    for line in value.splitlines():
        yield line.strip()
        least = max(LEAST_BEGINNING, -(-len(line) * 2 // 3))
        yield from (line[:length] for length in range(least, len(line)))


def _encoded(value: str) -> Iterator[str]:
    """The secret as programs of a guest may show it: in an address, in JSON, in a header."""
    yield quote(value, safe="")
    yield quote_plus(value)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield base64.b64encode(value.encode()).decode().rstrip("=")


class Redactor:
    """Masks secret values, on screens also where a line break cuts them or they are only begun."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value) if len(form) >= SHORTEST}
        self._values = sorted(forms, key=len, reverse=True)
        broken = ["\\s*".join(re.escape(character) for character in value) for value in self._values]
        self._broken = re.compile("|".join(broken)) if broken else None

    def text(self, text: str) -> str:
        """The text with every secret masked."""
        for value in self._values:
            text = text.replace(value, MASK * 8)
        return text

    def data(self, data: Mapping[str, object]) -> dict[str, object]:
        """Plain data with every secret in its texts masked."""
        return {key: self._value(value) for key, value in data.items()}

    def observation(self, seen: Observation) -> tuple[Observation, bool]:
        """The observation with every secret masked, and whether there was one."""
        if not self._values:
            return seen, False
        serial = self._serial(seen.serial)
        screen = self.screen(seen.screen) if seen.screen is not None else None
        elements = tuple(
            replace(one, name=self.text(one.name), value=self.text(one.value)) for one in seen.elements
        )
        if (serial, screen, elements) == (seen.serial, seen.screen, seen.elements):
            return seen, False
        return replace(seen, serial=serial, screen=screen, elements=elements), True

    def _serial(self, text: str) -> str:
        """Serial text of the same length, so that what is new in it can still be told; over line breaks too."""
        if self._broken is None:
            return text
        return self._broken.sub(lambda found: re.sub(r"\S", MASK, found.group()), text)

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self.data(value)
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value

    def screen(self, screen: ScreenText) -> ScreenText:
        """The text of a screen with every secret masked, also where a line ends in it."""
        width = max(screen.columns, *(len(line) for line in screen.lines), 1) if screen.lines else 1
        cells = "".join(line.ljust(width) for line in screen.lines)
        masked = cells
        for value in self._values:
            masked = masked.replace(value, MASK * len(value))
        if masked == cells:
            return screen
        lines = tuple(masked[i * width : (i + 1) * width].rstrip() for i in range(len(screen.lines)))
        runs = tuple(
            (row, column, masked[row * width + column : row * width + column + len(text)])
            for row, column, text in screen.highlighted
        )
        return replace(screen, lines=lines, highlighted=runs)
