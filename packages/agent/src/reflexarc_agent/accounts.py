"""Whose account a command runs under, and what that account brings along."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Dict, List, Optional

from reflexarc_agent.backend import RefusalError
from reflexarc_wire.errors import NOT_AUTHORIZED, OS_ERROR

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Account:
    """An account; `other` where it isn't the agent's own."""

    uid: int
    gid: int
    groups: List[int]
    shell: str
    home: str
    environment: Dict[str, str]
    other: bool


def account(name: Optional[str]) -> Account:
    """Look up an account, the agent's own without a name.

    Raises RefusalError where there is none, or where the agent, not being root, can't take it on.
    """
    try:
        entry = pwd.getpwnam(name) if name is not None else pwd.getpwuid(os.geteuid())
    except KeyError as error:
        if name is not None:
            raise RefusalError(OS_ERROR, f"this guest has no account {name!r}") from error
        return Account(os.geteuid(), os.getegid(), [], "/bin/sh", "/", dict(os.environ), False)
    other = entry.pw_uid != os.geteuid()
    if other and os.geteuid() != 0:
        raise RefusalError(
            NOT_AUTHORIZED, f"the agent runs as uid {os.geteuid()}; only as root could it become {name!r}"
        )
    shell = entry.pw_shell or "/bin/sh"
    identity = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": shell}
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid) if other else []
    environment = {**_inherited(other), **identity}
    return Account(entry.pw_uid, entry.pw_gid, groups, shell, entry.pw_dir, environment, other)


def _inherited(other: bool) -> Dict[str, str]:
    """The agent's own environment; another account is given no more of it than the language."""
    kept = {name: value for name, value in os.environ.items() if not other or name in ("LANG", "TZ")}
    kept.setdefault("PATH", _PATH)
    return kept
