"""Desktop entries: reading them, and finding the one that is meant.

Source: Desktop Entry Specification 1.5, "The Exec key", "Recognized desktop entry keys"; XDG Base Directory.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping, Optional

BYTES, ENTRIES, NEAR = 1 << 18, 5_000, 5
GROUP = "Desktop Entry"
_ESCAPES = {"s": " ", "n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_DROPPED = frozenset("fFuUdDnNvm")
"""Field codes for files, of which there are none here, and deprecated ones."""


class EntryError(Exception):
    """There is no such entry, or it can't be started as it is."""


@dataclass(frozen=True)
class Entry:
    """One desktop entry; `names` are its name and the translations of it."""

    id: str
    path: Path
    name: str
    names: frozenset[str]
    exec: str
    try_exec: str
    folder: str
    icon: str
    terminal: bool
    shown: bool
    activatable: bool

    def command(self) -> list[str]:
        """The program and its arguments, without files to open; raises EntryError where they can't be told."""
        words: list[str] = []
        for word in split(self.exec):
            if word == "%i":
                words += ["--icon", self.icon] if self.icon else []
            elif not (len(word) == 2 and word[0] == "%" and word[1] in _DROPPED):
                words.append(self._expanded(word))
        if not words:
            raise EntryError(f"{self.path} has no command to start")
        return words

    def _expanded(self, word: str) -> str:
        def code(found: re.Match[str]) -> str:
            letter = found.group(1)
            known = {"%": "%", "c": self.name, "k": str(self.path), **dict.fromkeys(_DROPPED, "")}
            if letter not in known:
                raise EntryError(f"{self.path} has the unknown field code %{letter} in its Exec")
            return known[letter]

        return re.sub("%(.?)", code, word)


def split(line: str) -> list[str]:
    """The words of an Exec key; raises EntryError where a quote isn't closed."""
    words = []
    for found in re.finditer(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))(?=\s|$)|(\S)', line, re.DOTALL):
        quoted, plain, wrong = found.groups()
        if wrong is not None:
            raise EntryError(f"{line[:200]!r} can't be split into words: a quote is not where it may be")
        words.append(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
    return words


def read(path: Path, id: str) -> Optional[Entry]:  # noqa: A002
    """Read an entry's file; None where it is none of an application, or is hidden, or can't be read."""
    try:
        with path.open("rb") as file:
            text = file.read(BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    keys = dict(_keys(text))
    if keys.get("Type") != "Application" or keys.get("Hidden") == "true":
        return None
    name = keys.get("Name", "")
    names = {name, *(value for key, value in keys.items() if key.startswith("Name["))}
    return Entry(
        *(id, path, name, frozenset(names - {""}), keys.get("Exec", ""), keys.get("TryExec", "")),
        *(keys.get("Path", ""), keys.get("Icon", ""), keys.get("Terminal") == "true"),
        *(keys.get("NoDisplay") != "true", keys.get("DBusActivatable") == "true"),
    )


def _keys(text: str) -> Iterator[tuple[str, str]]:
    group = ""
    for line in text.splitlines():
        if line.startswith("["):
            group = line.strip()[1:-1]
        elif group == GROUP and not line.startswith("#") and "=" in line:
            key, _, value = line.partition("=")
            yield key.strip(), re.sub(r"\\(.)", _escaped, value.strip())


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found.group(1), found.group())


def folders(environ: Mapping[str, str]) -> list[Path]:
    """Where entries are, the most important first."""
    home = environ.get("XDG_DATA_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".local/share"
    )
    others = environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    return [Path(folder) / "applications" for folder in [home, *others.split(":")] if folder]


def entries(environ: Mapping[str, str]) -> list[Entry]:
    """The applications of this session; of entries with one id the most important counts, hidden or not."""
    paths: dict[str, Path] = {}
    for folder in folders(environ):
        for path in sorted(folder.rglob("*.desktop")):
            paths.setdefault(str(path.relative_to(folder)).replace("/", "-")[: -len(".desktop")], path)
            if len(paths) >= ENTRIES:
                break
    read_all = (read(path, name) for name, path in paths.items())
    return [entry for entry in read_all if entry]


def named(listed: list[Entry], wanted: str) -> Entry:
    """The entry of that id or, in any case of letters, name; raises EntryError where it isn't one alone."""
    word = wanted[: -len(".desktop")] if wanted.endswith(".desktop") else wanted
    for entry in listed:
        if entry.id == word:
            return entry
    folded = wanted.casefold()
    shown = [entry for entry in listed if entry.shown]
    found = [entry for entry in shown if folded in {name.casefold() for name in entry.names}]
    found = found or [entry for entry in shown if folded == entry.id.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(entry.id for entry in found[:NEAR])
        raise EntryError(f"{wanted[:60]!r} is the name of several applications; name one by its id: {ids}")
    raise EntryError(f"no application is named {wanted[:60]!r}{_near(shown, folded)}")


def _near(shown: list[Entry], folded: str) -> str:
    """The names that are most like what was asked for."""
    known = {word.casefold(): word for entry in shown for word in (entry.id, entry.name) if word}
    close = difflib.get_close_matches(folded, known, NEAR, 0.5)
    close += [word for word in known if folded and folded in word and word not in close]
    if close:
        return "; there is " + ", ".join(repr(known[word][:60]) for word in close[:NEAR])
    return f"; none of {len(shown)} entries is like it" if shown else "; this desktop has no entries at all"
