"""Who may do what with a machine: the `allow` of the inventory, within that of the host's own policy."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from reflexarc.errors import ConfigError
from reflexarc.machine.policy import CLASSES, OPERATIONS, Policy

SYSTEM_POLICY = Path("/etc/reflexarc/policy.toml")
MAX_SIZE = 1_000_000

Mistake = Callable[[str], ConfigError]


def read_allow(raw: object, where: str, absent: Policy, mistake: Mistake) -> Policy:
    """Check an `allow` table; `absent` stands for what it doesn't say. where: the machine's table, for errors."""
    if raw is None:
        return absent
    if not isinstance(raw, dict):
        raise mistake(f"{where}.allow is a table, not {raw!r}")
    allowed = {"people": absent.people, "agents": absent.agents}
    for who, words in raw.items():
        if who not in allowed:
            raise mistake(f"{where}.allow has people and agents, not {who!r}")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise mistake(f'{where}.allow.{who} is a list such as ["..."], not {words!r}')
        for word in words:
            if word not in ("*", *CLASSES, *OPERATIONS):
                raise mistake(
                    f"{where}.allow.{who}: there is no operation or class {word!r}; "
                    f"classes: {', '.join(sorted(CLASSES))}"
                )
        allowed[who] = tuple(words)
    return Policy(**allowed)


class SystemPolicy:
    """What the host's owner allows at most, by patterns of machine names: `[machines."*"]` and its like.

    Every pattern that fits a machine counts: it is allowed what all of them allow.
    """

    def __init__(self, patterns: Mapping[str, Policy]) -> None:
        self._patterns = patterns

    def of(self, machine: str) -> Policy:
        """What it leaves of everything to a machine."""
        allowed = Policy(("*",), ("*",))
        for pattern, policy in self._patterns.items():
            if fnmatchcase(machine, pattern):
                allowed = allowed.within(policy)
        return allowed


def system_policy() -> SystemPolicy:
    """The host's policy, and that of the file $REFLEXARC_POLICY names: it can take away, never add.

    Raises ConfigError for a file that can't be trusted, read or understood: nothing is allowed then.
    """
    files = {SYSTEM_POLICY: {0}}
    own = os.environ.get("REFLEXARC_POLICY")
    if own:
        files[Path(own)] = {0, os.geteuid()}
        if not Path(own).exists():
            raise ConfigError("$REFLEXARC_POLICY names a policy that is not there", path=Path(own))
    found: dict[str, Policy] = {}
    for path, owners in files.items():
        for pattern, policy in read_policy(path, owners).items():
            found[pattern] = found[pattern].within(policy) if pattern in found else policy
    return SystemPolicy(found)


def read_policy(path: Path, owners: set[int]) -> Mapping[str, Policy]:
    """Read a policy file: pattern of machine names -> what it allows. Empty where there is no such file.

    owners: the ids of the users who may own it and the folder it is in.
    """
    try:
        text = _trusted(path, owners)
        data = tomllib.loads(text) if text is not None else {}
    except UnicodeDecodeError as error:
        raise ConfigError("the policy is not UTF-8 text", path=path) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise ConfigError(f"not TOML: {error}", path=path, line=int(line[1]) if line else None) from error
    machines = data.get("machines", {})
    if data.keys() - {"machines"} or not isinstance(machines, dict):
        raise ConfigError('a policy has [machines."PATTERN"] tables and nothing else', path=path)
    return {name: _entry(name, cast("object", raw), path) for name, raw in machines.items()}


def _entry(name: str, raw: object, path: Path) -> Policy:
    if not isinstance(raw, dict) or raw.keys() != {"allow"}:
        raise ConfigError(f"machines.{name} has allow = {{people = [...], agents = [...]}} alone", path=path)
    everything = Policy(("*",), ("*",))
    return read_allow(raw["allow"], f"machines.{name}", everything, lambda text: ConfigError(text, path=path))


def _trusted(path: Path, owners: set[int]) -> str | None:
    """The text of a file that only its owners can have written, None where there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"can't read the policy of this host: {error.strerror}", path=path) from error
    with os.fdopen(fd, "rb") as file:
        for what, status in ((path, os.fstat(fd)), (path.parent, path.parent.stat())):
            if status.st_uid not in owners or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(
                    f"the policy of this host can't be trusted, and nothing is allowed until it can: {what} is owned "
                    f"by user {status.st_uid} with mode {stat.S_IMODE(status.st_mode):o}; it has to be root's, "
                    "writable by nobody else (chown root, chmod go-w)",
                    path=path,
                )
        if not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size > MAX_SIZE:
            raise ConfigError(f"the policy is no file of at most {MAX_SIZE:,} bytes", path=path)
        return file.read(MAX_SIZE).decode("utf-8")
