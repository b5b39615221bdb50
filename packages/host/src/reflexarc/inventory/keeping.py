"""Whether reflexarc can keep what it has to: state folder, journal of runs, audit log; nothing is written."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from reflexarc.errors import JournalError
from reflexarc.inventory.places import Places
from reflexarc.runs.journal import Journal
from reflexarc.runs.preflight import Finding, Severity
from reflexarc.wording import counted

LITTLE, TOO_LITTLE = 1_000_000_000, 50_000_000
_FIX = "make it yours and writable, or set REFLEXARC_STATE to another folder"


def state_findings(found: Places) -> Iterator[Finding]:
    """Look at the state folder and at what every run and every command needs in it."""
    yield folder(found.state)
    yield space(found.state)
    yield journal(found.journal)
    yield audit(found.audit)


def folder(state: Path) -> Finding:
    """Whether files can be made in the state folder, or the folder itself where it isn't there."""
    try:
        nearest = _nearest(state)
        is_folder = nearest.is_dir()
    except OSError as error:
        return Finding("state", Severity.CRITICAL, f"{state}: {error.strerror}", _FIX)
    if not is_folder:
        return Finding("state", Severity.CRITICAL, f"{nearest} is no folder", _FIX)
    if not os.access(nearest, os.W_OK | os.X_OK):
        detail = f"{nearest} can't be written: no run can begin, and nothing is sent to a machine"
        return Finding("state", Severity.CRITICAL, detail, _FIX)
    return Finding("state", Severity.OK, str(state) if nearest == state else f"{state}, not there yet")


def space(state: Path, *, little: int = LITTLE, too_little: int = TOO_LITTLE) -> Finding:
    """Whether there is room for state and what runs keep; the bounds are in bytes."""
    try:
        free = shutil.disk_usage(_nearest(state)).free
    except OSError as error:
        return Finding("space", Severity.WARNING, f"{state}: {error.strerror}", "look at that disk")
    severity = (
        Severity.OK if free >= little else Severity.WARNING if free >= too_little else Severity.CRITICAL
    )
    fix = "" if severity is Severity.OK else "free some, or set REFLEXARC_STATE to a folder on another disk"
    return Finding(
        "space", severity, f"{free / 1e9:.1f} GB free for state and what runs keep, in {state}", fix
    )


def journal(path: Path) -> Finding:
    """Whether the journal of runs can be read, whole, and written."""
    try:
        with closing(Journal(path, read_only=True)) as opened:
            opened.check()
            count = len(opened.runs())
    except JournalError as error:
        detail, _, fix = str(error).partition("; ")
        return Finding("journal", Severity.CRITICAL, f"{detail}; no run can begin or go on", fix)
    written = _written(path)
    if written is not None:
        detail = f"{path}: {written}: no run can begin or go on; `reflexarc runs list` and `runs show` still read it"
        return Finding("journal", Severity.CRITICAL, detail, "make it yours and writable")
    return Finding("journal", Severity.OK, counted(count, "run") if count else "no runs yet")


def audit(path: Path) -> Finding:
    """Whether the audit log can be appended to."""
    written = _written(path)
    if written is not None:
        detail = f"{path}: {written}: nothing is sent to a machine while this is so"
        fix = "make it a plain file of yours that can be written, or move it away"
        return Finding("audit", Severity.CRITICAL, detail, fix)
    return Finding("audit", Severity.OK, "it can be written" if path.exists() else "none yet")


def _written(path: Path) -> str | None:
    """Why a file can't be written, None where it can or isn't there."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or "it can't be looked at"
    if not stat.S_ISREG(status.st_mode):
        return "it is no plain file"
    return None if os.access(path, os.W_OK) else "it can't be written"


def _nearest(state: Path) -> Path:
    """The folder itself, or the nearest of those it is to be made in that is there."""
    return next(path for path in (state, *state.parents) if path.exists())
