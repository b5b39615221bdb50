"""Files of this host that a playbook may name: inside folders that the machine's owner names, links resolved.

What a person typed may lie anywhere, but for the system's own folders and what reflexarc keeps for itself.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from reflexarc.errors import SafetyError

# Files that are views on the kernel and on processes, this one's memory and secrets included.
_NEVER = tuple(Path(name) for name in ("/proc", "/sys", "/dev"))
_PORTS = {"http": 80, "https": 443}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class HostPaths:
    """Where images and files for a machine come from.

    media: folders, and addresses such as `https://mirror.example.org/iso`, that images are taken from. exchange: the
    folder for upload and download. kept: what reflexarc keeps for itself; nothing is ever written there.
    """

    media: tuple[str, ...] = ()
    exchange: Path | None = None
    kept: tuple[Path, ...] = ()

    def image(self, source: str, *, typed: bool) -> str:
        """The image as the machine's drive is given it: the path of a plain file, links resolved, or an address.

        typed: a person typed it; it is the path of that file already then. Raises SafetyError.
        """
        if _ADDRESS.match(source):
            if not typed and not any(_below(source, allowed) for allowed in self.media):
                raise _refused(
                    "media.mount", f"{source} is not among the addresses in `media` of its inventory"
                )
            return source
        if typed:
            return str(_typed(source, "media.mount"))
        folders = tuple(Path(entry) for entry in self.media if not _ADDRESS.match(entry))
        return str(_confined(source, folders, "media", "media.mount"))

    def check(self, operation: str, typed: str) -> None:
        """Raise SafetyError where what a person typed can't serve the operation: before a run, not in its middle."""
        match operation:
            case "media.mount":
                self.image(typed, typed=True)
            case "files.write":
                self.open_source(typed, typed=True).close()
            case _:
                self.target(typed, typed=True)

    def open_source(self, source: str, *, typed: bool) -> BinaryIO:
        """Open a file for upload; raises SafetyError where it is none that may be read."""
        path = _typed(source, "files.write") if typed else self._exchanged(source, "files.write")
        return _open(path, "files.write")

    def target(self, target: str, *, typed: bool) -> Path:
        """Where a download is put: its folder exists; raises SafetyError where nothing may be written there."""
        operation = "files.read"
        path = Path(target).expanduser()
        if not typed:
            path = self._folder(operation) / path
        name = path.name
        if name in ("", ".", "..") or "\0" in target:
            raise _refused(operation, f"{target!r} is not the name of a file")
        folder = _resolved(path.parent, operation)
        final = folder / name
        if not typed and not folder.is_relative_to(self._folder(operation)):
            raise _refused(operation, f"{target} is outside of the `exchange` folder of its inventory")
        if _is_under(folder, _NEVER) or self._is_kept(final):
            raise _refused(operation, f"nothing is written to {final}: reflexarc or the system keeps it")
        if final.is_symlink() or (final.exists() and not final.is_file()):
            raise _refused(operation, f"{final} is there and is no plain file")
        return final

    def _is_kept(self, path: Path) -> bool:
        kept = [Path(os.path.realpath(one)) for one in self.kept]
        return _is_under(path, kept) or any(one.is_relative_to(path) for one in kept)

    def _folder(self, operation: str) -> Path:
        if self.exchange is None:
            raise _refused(operation, "the inventory names no `exchange` folder for this machine")
        return _resolved(self.exchange, operation)

    def _exchanged(self, source: str, operation: str) -> Path:
        return _confined(source, (self._folder(operation),), "exchange", operation)


def settled(text: str) -> str:
    """What a person typed for a path, absolute and with links resolved, so that one file is granted; or an address."""
    if _ADDRESS.match(text) or not text or "\0" in text:
        return text
    try:
        return os.path.realpath(Path(text).expanduser())
    except RuntimeError:
        return text


def open_confined(folder: Path, name: str, operation: str = "files.read") -> BinaryIO:
    """Open a plain file below a folder, links resolved; raises SafetyError for anything else."""
    root = _resolved(folder, operation)
    return _open(_confined(name, (root,), str(folder), operation), operation)


def _confined(source: str, folders: Sequence[Path], key: str, operation: str) -> Path:
    if not folders:
        raise _refused(operation, f"{source}: the inventory names no folder in `{key}` for this machine")
    for folder in folders:
        root = Path(os.path.realpath(folder))
        path = Path(os.path.realpath(root / source)) if "\0" not in source else root
        if path != root and path.is_relative_to(root) and not _is_under(path, _NEVER) and _is_plain(path):
            return path
    raise _refused(operation, f"{source!r} is no plain file inside of {', '.join(map(str, folders))} ({key})")


def _typed(source: str, operation: str) -> Path:
    """A path that was settled when it was typed: had it a link now, it would be another file."""
    path = Path(source)
    if "\0" in source or not path.is_absolute() or os.path.realpath(path) != str(path):
        problem = f"{source} is not, or no longer, the whole path of a file without links"
        raise SafetyError(problem, rule="host_path", operation=operation)
    if _is_under(path, _NEVER) or not _is_plain(path):
        raise SafetyError(f"there is no plain file {source}", rule="host_path", operation=operation)
    return path


def _open(path: Path, operation: str) -> BinaryIO:
    """Open what was checked, link by link anew: no part of the path may have become a link meanwhile."""
    try:
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part, last in [*((part, False) for part in path.parts[1:-1]), (path.name, True)]:
            flags = os.O_NONBLOCK if last else os.O_DIRECTORY
            parent, fd = fd, -1
            try:
                fd = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=parent)
            finally:
                os.close(parent)
    except OSError as error:
        raise _refused(operation, f"{path} can't be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _refused(operation, f"{path} is no plain file")
    return os.fdopen(fd, "rb")


def _resolved(folder: Path, operation: str) -> Path:
    path = Path(os.path.realpath(folder.expanduser()))
    if not path.is_dir():
        raise _refused(operation, f"there is no folder {folder}")
    return path


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _is_under(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _below(address: str, allowed: str) -> bool:
    """Tell whether an address is on the named host, and below its path where it has one."""
    if not _ADDRESS.match(allowed):
        return False
    try:
        one, other = urlsplit(address), urlsplit(allowed)
        same = (one.scheme, one.hostname, one.port or _PORTS.get(one.scheme)) == (
            other.scheme,
            other.hostname,
            other.port or _PORTS.get(other.scheme),
        )
    except ValueError:
        return False
    parts = re.split(r"[/\\]|%2f|%5c", one.path.lower())
    if one.username is not None or one.scheme not in _PORTS or "%2e" in one.path.lower() or ".." in parts:
        return False
    return same and (one.path + "/").startswith(other.path.rstrip("/") + "/")


def _refused(operation: str, problem: str) -> SafetyError:
    return SafetyError(
        f"{problem}; name it in the inventory, or give it with --var", rule="host_path", operation=operation
    )
