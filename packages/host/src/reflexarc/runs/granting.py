"""Grants that a person gives in advance: kept until one run or one call uses them up, or they expire."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from reflexarc.errors import JournalError, RunError

LONGEST = 24 * 3600.0
MAX_SIZE = 4_000_000
_ID = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Grant:
    """What one grant allows; times are seconds since the epoch.

    For a run: keys, the acts of its playbook as it stood, and how many of each. For direct calls to the machine:
    calls, an operation with the argument it is bound to (None: it has none), and count, how many of them in all.
    """

    id: str
    machine: str
    place: str
    operations: tuple[str, ...]
    created: float
    expires: float
    by: str
    run: str = ""
    keys: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, str | None] = field(default_factory=dict)
    count: int = 1

    def allows(self, operation: str, details: Mapping[str, object]) -> bool:
        """Tell whether it is for such a call."""
        return operation in self.calls and self.calls[operation] == argument_of(operation, details)


def argument_of(operation: str, details: Mapping[str, object]) -> str | None:
    """What tells one call of a destructive operation from another: image, boot device, saved state."""
    if operation == "boot.set_device":
        return f"{details.get('device')}{',once' if details.get('once') else ''}"
    name = {"media.mount": "source", "snapshot.restore": "name", "snapshot.delete": "name"}.get(operation)
    return None if name is None else str(details.get(name))


class GrantBook:
    """The grants of one user, a file each, private to them and sealed against change.

    Using one up is making its mark, which the file system lets exactly one program do; revoking one is the same. Of a
    count, each call makes a mark of its own, and the last one that of the whole.
    Raises JournalError when something can't be read or written.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    def give(
        self,
        *,
        machine: str,
        place: str,
        operations: tuple[str, ...],
        seconds: float,
        by: str,
        run: str = "",
        keys: Mapping[str, int] | None = None,
        calls: Mapping[str, str | None] | None = None,
        count: int = 1,
    ) -> Grant:
        """Keep a new grant."""
        now = self._clock()
        expires = now + min(seconds, LONGEST)
        number = secrets.token_hex(4)
        grant = Grant(
            number, machine, place, operations, now, expires, by, run, keys or {}, calls or {}, count
        )
        body = json.dumps(asdict(grant))
        with self._translated():
            self._prune()
            _write_new(self._file(number), json.dumps({"grant": body, "seal": self._seal(body)}))
        return grant

    def open(self) -> list[Grant]:
        """The grants that may still be used, oldest first; what is not as it was written is none."""
        with self._translated():
            names = sorted(self._folder.glob("*.grant"))
            found = [grant for name in names if (grant := self._read(name)) is not None]
        valid = [grant for grant in found if self._is_valid(grant) and not self._mark(grant.id).exists()]
        return sorted(valid, key=lambda grant: grant.created)

    def use_up(self, grant: Grant, user: str) -> bool:
        """Use a grant up for `user`; False where it expired, was revoked, or somebody else was first."""
        return self._is_valid(grant) and self._marked(grant, 0, user)

    def use_one(self, grant: Grant, user: str) -> bool:
        """Use one call of a grant; False where it expired, was revoked, or others were first."""
        with self._translated():
            usable = self._is_valid(grant) and not self._mark(grant.id).exists()
        return usable and any(self._marked(grant, number, user) for number in (*range(1, grant.count), 0))

    def left(self, grant: Grant) -> int:
        """How many calls of an open grant are left."""
        return grant.count - sum(self._mark(grant.id, number).exists() for number in range(1, grant.count))

    def _is_valid(self, grant: Grant) -> bool:
        return grant.created <= self._clock() < grant.expires

    def _marked(self, grant: Grant, number: int, user: str) -> bool:
        """Make a mark of a grant, 0 being that of the whole; False where it is there."""
        with self._translated():
            try:
                _write_new(self._mark(grant.id, number), json.dumps({"at": self._clock(), "by": user}))
            except FileExistsError:
                return False
            if number == 0:
                self._file(grant.id).unlink(missing_ok=True)
        return True

    def find(self, prefix: str) -> Grant:
        """The one open grant whose id begins so; raises RunError where none or several do."""
        found = [grant for grant in self.open() if prefix and grant.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        what = "several open grants begin" if found else "no open grant begins"
        raise RunError(f"{what} with {prefix!r}; `reflexarc grant list` shows them", run_id="")

    def _file(self, number: str) -> Path:
        return self._folder / f"{number}.grant"

    def _mark(self, grant_id: str, number: int = 0) -> Path:
        return self._folder / (f"{grant_id}.{number}.used" if number else f"{grant_id}.used")

    def _read(self, path: Path) -> Grant | None:
        """The grant in a file, None where others could have written it or it was changed since."""
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
            sealed = json.loads(_read_private(path))
            body = str(sealed["grant"])
            if hmac.compare_digest(str(sealed["seal"]), self._seal(body)):
                data = json.loads(body)
                if data["id"] == path.stem and set(path.stem) <= _ID:
                    return Grant(**{**data, "operations": tuple(data["operations"])})
        return None

    def _seal(self, body: str) -> str:
        path = self._folder / "key"
        with suppress(FileExistsError):
            _write_new(path, secrets.token_hex(32))
        return hmac.new(_read_private(path).encode(), body.encode(), hashlib.sha256).hexdigest()

    def _prune(self) -> None:
        """Forget marks of grants that have long expired, and those grants."""
        for path in [*self._folder.glob("*.used"), *self._folder.glob("*.grant")]:
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < self._clock() - 2 * LONGEST:
                    path.unlink()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            yield
        except OSError as error:
            raise JournalError(
                f"can't keep grants: {error.strerror}; check the disk and that folder's rights",
                path=self._folder,
            ) from error


class MachineGrants:
    """The open grants for direct calls to one machine."""

    def __init__(self, book: GrantBook, place: str) -> None:
        self._book = book
        self._place = place

    def has(self, operation: str, details: Mapping[str, object]) -> bool:
        """Tell whether a grant covers the call; it is not used up by that."""
        return next(self._fitting(operation, details), None) is not None

    def use(self, operation: str, details: Mapping[str, object]) -> str | None:
        """Use one call of a grant and say of which, None where none covers it or others were first."""
        for grant in self._fitting(operation, details):
            if self._book.use_one(grant, f"a call of {operation}, process {os.getpid()}"):
                return f"grant {grant.id} by {grant.by}"
        return None

    def _fitting(self, operation: str, details: Mapping[str, object]) -> Iterator[Grant]:
        for grant in self._book.open():
            if not grant.run and grant.place == self._place and grant.allows(operation, details):
                yield grant


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, whole and on the disk; raises FileExistsError where it is."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        # A link, unlike a renaming, never takes the place of a file that is there.
        os.link(fresh, path)
    finally:
        fresh.unlink()


def _read_private(path: Path) -> str:
    """The text of a file that only this user can have written; raises ValueError where that isn't so."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, encoding="utf-8") as file:
        status = os.fstat(fd)
        private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
        if status.st_uid != os.geteuid() or not private or status.st_size > MAX_SIZE:
            raise ValueError(f"{path} is not private")
        return file.read(MAX_SIZE)
