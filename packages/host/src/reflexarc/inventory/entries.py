"""The inventory file: the machines there are, with an error that helps for every mistake."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from reflexarc.errors import ConfigError
from reflexarc.inventory.allow import read_allow, system_policy
from reflexarc.inventory.places import config_folder
from reflexarc.machine.layouts import LAYOUTS
from reflexarc.machine.policy import Policy

FILE_NAME = "reflexarc.toml"
_DRIVERS = ("qemu", "replay", "agent", "ssh")
_KEYS = ("drivers", "keymap", "media", "exchange", "allow")
MAX_SIZE = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Entry:
    """One machine of the inventory.

    settings: driver name -> its table as written. source: the file. media: folders, and addresses that begin with a
    scheme, from which playbooks take images. exchange: the folder for upload and download. policy: what both the
    inventory and the host's own policy allow.
    """

    name: str
    drivers: tuple[str, ...]
    settings: Mapping[str, Mapping[str, object]]
    source: Path
    keymap: str = "us"
    policy: Policy = field(default_factory=Policy)
    media: tuple[str, ...] = ()
    exchange: Path | None = None

    @property
    def place(self) -> str:
        """The name of what is kept for this machine: two inventories may each have a machine of the same name."""
        return f"{self.name}-{hashlib.sha256(str(self.source).encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Inventory:
    """The machines of one file."""

    path: Path
    machines: Mapping[str, Entry]

    def entry(self, name: str) -> Entry:
        """The machine of that name; raises ConfigError, with the nearest names, where there is none."""
        if name in self.machines:
            return self.machines[name]
        near = get_close_matches(name, list(self.machines), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self.machines) or 'no machines'}"
        raise ConfigError(f"there is no machine {name!r} in the inventory; {hint}", path=self.path)

    def matching(self, patterns: Sequence[str]) -> list[Entry]:
        """The machines that the names and patterns mean, each once; raises ConfigError for one that means none."""
        found: dict[str, Entry] = {}
        for pattern in patterns:
            named = [name for name in self.machines if fnmatchcase(name, pattern)]
            for name in named or [self.entry(pattern).name]:
                found[name] = self.machines[name]
        return list(found.values())


def load(path: str | os.PathLike[str] | None = None) -> Inventory:
    """Read the inventory: `path`, else $REFLEXARC_INVENTORY, ./reflexarc.toml, the user's own.

    Raises ConfigError, with the line where it is known, for every mistake, and for a policy of this host that
    can't be trusted.
    """
    path = Path(path) if path else _find()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
        if len(raw) > MAX_SIZE:
            raise ConfigError(f"the inventory is larger than {MAX_SIZE:,} bytes", path=path)
        text = raw.decode("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"can't read the inventory: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise ConfigError("the inventory is not UTF-8 text", path=path) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise ConfigError(f"not TOML: {error}", path=path, line=int(line[1]) if line else None) from error
    return _Reader(path, text).inventory(data)


def _find() -> Path:
    own = os.environ.get("REFLEXARC_INVENTORY")
    candidates = [Path(own)] if own else [Path(FILE_NAME), config_folder() / FILE_NAME]
    for candidate in candidates:
        if own or candidate.exists():
            return candidate
    raise ConfigError(
        f"there is no inventory: neither ./{FILE_NAME} nor {candidates[-1]}; write one, such as\n"
        '  [machines.lab1]\n  drivers = ["qemu"]\n  qemu = {memory_mib = 1024, disk = "lab1.qcow2"}'
    )


class _Reader:
    """Checks the tables of one file; errors name the line on which the key stands."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._system = system_policy()

    def inventory(self, data: Mapping[str, object]) -> Inventory:
        for key in data:
            if key != "machines":
                raise self._error(f"there is no section {key!r}; machines stand in [machines.NAME]", key)
        machines = self._table(data.get("machines", {}), "machines", "machines")
        return Inventory(self._path, {name: self._entry(name, raw) for name, raw in machines.items()})

    def _entry(self, name: str, raw: object) -> Entry:
        if not _NAME.fullmatch(name):
            raise self._error(f"a machine's name is letters, digits, '.', '_' and '-', not {name!r}", name)
        table = self._table(raw, f"machines.{name}", name)
        for key in table:
            if key not in (*_KEYS, *_DRIVERS):
                near = get_close_matches(key, (*_KEYS, *_DRIVERS), n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join((*_KEYS, *_DRIVERS))}"
                raise self._error(f"machines.{name}: there is no key {key!r}; {hint}", name, key)
        drivers = self._words(table.get("drivers"), name, "drivers")
        for driver in drivers:
            if driver not in _DRIVERS:
                raise self._error(
                    f"machines.{name}: there is no driver {driver!r}; known: {', '.join(_DRIVERS)}",
                    name,
                    "drivers",
                )
        if not drivers:
            raise self._error(f'machines.{name} needs drivers, such as drivers = ["qemu"]', name)
        keymap = table.get("keymap", "us")
        if keymap not in LAYOUTS:
            raise self._error(
                f"machines.{name}.keymap is one of {', '.join(LAYOUTS)}, not {keymap!r}", name, "keymap"
            )
        settings = {d: self._table(table.get(d, {}), f"machines.{name}.{d}", name, d) for d in drivers}
        source = self._path.absolute()
        return Entry(
            name,
            drivers,
            settings,
            source,
            str(keymap),
            self._policy(table.get("allow"), name),
            tuple(
                self._place(word, name, "media") for word in self._words(table.get("media"), name, "media")
            ),
            self._exchange(table.get("exchange"), name),
        )

    def _exchange(self, value: object, name: str) -> Path | None:
        if value is None:
            return None
        if not isinstance(value, str) or "://" in value:
            raise self._error(f"machines.{name}.exchange is a folder, not {value!r}", name, "exchange")
        return Path(self._place(value, name, "exchange"))

    def _place(self, text: str, name: str, key: str) -> str:
        """An address as it is, a folder absolute: it is relative to the inventory's own."""
        if not text.strip() or "\0" in text:
            raise self._error(f"machines.{name}.{key} names a folder, not {text!r}", name, key)
        if "://" in text:
            if not re.fullmatch(r"https?://[^/@?#\s]+(/[^?#\s]*)?", text):
                raise self._error(f"machines.{name}.{key}: {text!r} is no http or https address", name, key)
            return text
        try:
            return str((self._path.absolute().parent / Path(text).expanduser()).absolute())
        except RuntimeError:
            raise self._error(
                f"machines.{name}.{key}: there is no such user in {text!r}", name, key
            ) from None

    def _policy(self, raw: object, name: str) -> Policy:
        def mistake(text: str) -> ConfigError:
            return self._error(text, name, "allow")

        return read_allow(raw, f"machines.{name}", Policy(), mistake).within(self._system.of(name))

    def _table(self, value: object, what: str, *keys: str) -> Mapping[str, object]:
        if not isinstance(value, dict):
            raise self._error(f"{what} is a table, not {value!r}", *keys)
        return cast("Mapping[str, object]", value)

    def _words(self, value: object, name: str, key: str) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(value)
        raise self._error(f'machines.{name}.{key} is a list such as ["..."], not {value!r}', name, key)

    def _error(self, message: str, *keys: str) -> ConfigError:
        """An error at the line that has the last of the keys, searched from where the first one stands."""
        line = 0
        for key in keys:
            pattern = re.compile(rf"(^|[\[.\s{{,\"']){re.escape(key)}[\]\"']?\s*([=.\]]|$)")
            line = next((i for i in range(line, len(self._lines)) if pattern.search(self._lines[i])), line)
        return ConfigError(message, path=self._path, line=line + 1 if keys else None)
