"""The bearer token that clients bring over HTTP, in a file of this user alone."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from reflexarc.errors import ConfigError
from reflexarc.inventory.places import places

MIN_TOKEN, MAX_TOKEN = 16, 4096


def own_token_file() -> Path:
    """The user's own token file, made where there is none yet; raises ConfigError where it can't be."""
    path = places().mcp_token
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make(path)
    except OSError as error:
        raise ConfigError(f"can't make a token: {error.strerror}; give --token-file", path=path) from error
    return path


def _make(path: Path) -> None:
    """Write a new token: whole at once, and where two programs do it at a time the first one's stays."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, path)


def read_token(path: Path) -> str:
    """The bearer token in a file; raises ConfigError where it can't be read, is too short, or others can read it."""
    try:
        with path.open(encoding="ascii") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigError(f"others can read it: chmod 600 {path}", path=path)
            token = file.read(MAX_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read the token: {error}", path=path) from error
    if len(token) < MIN_TOKEN:
        raise ConfigError(f"a token has at least {MIN_TOKEN} characters", path=path)
    return token
