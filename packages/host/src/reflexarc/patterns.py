"""Regular expressions from files and replies: compiled only where they can't run away.

Python's matcher backtracks; a repetition inside a repetition can take it hours on one screen of text.
"""

from __future__ import annotations

import re
from re import _constants, _parser  # type: ignore[attr-defined]  # the parse tree has no public name
from typing import Any

MAX_PATTERN = 500
_REPEATS = frozenset({_constants.MAX_REPEAT, _constants.MIN_REPEAT})


def problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern, None where it may be used."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern is longer than {MAX_PATTERN} characters"
    try:
        re.compile(pattern, re.MULTILINE)
        tree = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    return "a repetition inside a repetition can take for ever" if _nested(tree, inside=False) else None


def _nested(tree: Any, *, inside: bool) -> bool:
    for operation, argument in tree:
        repeats = operation in _REPEATS and argument[1] > 1
        if repeats and inside and argument[1] > 8:
            return True
        if any(_nested(part, inside=inside or (repeats and argument[1] > 8)) for part in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> list[Any]:
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, tuple | list):
        return [part for item in argument for part in _parts(item)]
    return []
