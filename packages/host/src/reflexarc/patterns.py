"""Regular expressions from files and replies: compiled only where they can't run away.

Python's matcher backtracks; a repetition inside a repetition can take it hours on one screen of text.
"""

from __future__ import annotations

import re
from re import _constants, _parser  # type: ignore[attr-defined]  # the parse tree has no public name
from typing import Any

MAX_PATTERN = 500
MAX_WIDE = 3
_ANYTHING = frozenset({_constants.ANY, _constants.NOT_LITERAL})
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
    if _nested(tree, inside=False):
        return "a repetition inside a repetition, or of alternatives, can take for ever"
    if _wide(tree) > MAX_WIDE:
        return f"more than {MAX_WIDE} repetitions of nearly any character can take for ever; name what stands between"
    return None


def _nested(tree: Any, *, inside: bool) -> bool:
    for operation, argument in tree:
        repeats = operation in _REPEATS and argument[1] > 1
        if operation is _constants.BRANCH and inside:
            return True
        if repeats and inside and argument[1] > 8:
            return True
        if any(_nested(part, inside=inside or (repeats and argument[1] > 8)) for part in _parts(argument)):
            return True
    return False


def _wide(tree: Any) -> int:
    """How many long repetitions there are of what matches nearly anything."""
    found = 0
    for operation, argument in tree:
        if operation in _REPEATS and argument[1] > 8:
            found += any(one in _ANYTHING or _is_wide_set(one, what) for one, what in argument[2])
        else:
            found += sum(_wide(part) for part in _parts(argument))
    return found


def _is_wide_set(operation: Any, items: Any) -> bool:
    return operation is _constants.IN and any(
        kind is _constants.NEGATE or (kind is _constants.CATEGORY and "NOT" in str(what))
        for kind, what in items
    )


def _parts(argument: Any) -> list[Any]:
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, tuple | list):
        return [part for item in argument for part in _parts(item)]
    return []
