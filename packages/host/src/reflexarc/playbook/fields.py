"""Reading plain data by type, with errors that point at the place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import cast

from reflexarc import patterns
from reflexarc.errors import PlaybookError
from reflexarc.playbook.document import Document, Path


class Fields:
    """A mapping of the document whose keys are all known; absent and null are the same.

    known: the keys; where they come with their bounds and choices, these hold for their values.
    """

    def __init__(
        self, document: Document, path: Path, value: object, known: Collection[str], what: str
    ) -> None:
        self.document = document
        self.path = path
        self._known = known
        if not isinstance(value, Mapping):
            raise document.error(path, f"{what} is a mapping, not {spell(value)}")
        self._values = cast("Mapping[str, object]", value)
        for key in self._values:
            if key not in known:
                raise document.error((*path, key), unknown(f"key of {what}", key, known))

    def error(self, key: str, message: str) -> PlaybookError:
        return self.document.error((*self.path, key), message)

    def get(self, key: str) -> object:
        return self._values.get(key)

    def text(self, key: str) -> str | None:
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(key, f"{key} is text, not {spell(value)}")

    def required_text(self, key: str, what: str) -> str:
        value = self.text(key)
        if not value or not value.strip():
            raise self.error(key, f"{what} needs a {key}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        raise self.error(key, f"{key} is true or false, not {spell(value)}")

    def number(self, key: str, minimum: float | None = None, maximum: float | None = None) -> float | None:
        value = self.get(key)
        minimum, maximum = self._bounds(key, minimum, maximum)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = "; write it out, without exponent" if _is_power(value) else ""
            raise self.error(key, f"{key} is a number, not {spell(value)}{hint}")
        if not minimum <= value <= maximum:
            raise self.error(
                key, f"{key} is between {_told(minimum)} and {_told(maximum)}, not {_told(value)}"
            )
        return float(value)

    def _bounds(self, key: str, minimum: float | None, maximum: float | None) -> tuple[float, float]:
        known = self._known.get(key) if isinstance(self._known, Mapping) else None
        minimum = known.minimum if minimum is None and known is not None else minimum
        maximum = known.maximum if maximum is None and known is not None else maximum
        return 0.0 if minimum is None else minimum, 1e6 if maximum is None else maximum

    def integer(self, key: str, minimum: int | None = None, maximum: int | None = None) -> int | None:
        value = self.number(key, minimum, maximum)
        if value is not None and value != int(value):
            raise self.error(key, f"{key} is a whole number, not {value:g}")
        return None if value is None else int(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.get(key)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return tuple(cast("list[str]", items))
        raise self.error(key, f"{key} is a list of words, not {spell(value)}")

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.text(key)
        if value is None:
            return choices[0]
        if value not in choices:
            raise self.error(key, f"{key} is {' or '.join(choices)}, not {value!r}")
        return value

    def pattern(self, key: str) -> str | None:
        value = self.text(key)
        if value is None:
            return None
        wrong = patterns.problem(value)
        if wrong is not None:
            raise self.error(key, f"{key}: {wrong}")
        return value


def _is_power(value: object) -> bool:
    """Tell whether a text is a number as YAML 1.2 writes it and YAML 1.1 doesn't."""
    return isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", value[:40]) is not None


def _told(number: float) -> str:
    try:
        return f"{number:,.10g}"
    except OverflowError:
        return "a number of hundreds of digits"


def unknown(what: str, name: object, known: Collection[str]) -> str:
    """The text of an error for a name that doesn't exist, with the nearest ones that do."""
    near = get_close_matches(str(name), sorted(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
    return f"there is no {what} {name!r}; {hint}"


def spell(value: object) -> str:
    """Name the kind of a plain value, as an error would."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return "a list" if isinstance(value, list) else "a mapping"
