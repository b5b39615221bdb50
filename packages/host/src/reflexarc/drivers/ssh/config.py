"""The `ssh` table of a machine's inventory entry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reflexarc.machine.settings import Settings

KEYS = (
    "host", "lease", "port", "user", "identity_file", "known_hosts", "jump", "config", "pixels", "display",
)  # fmt: skip

# ssh puts these into commands of the user's configuration, where a shell would read them.
_HOST = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:%-]{0,254}")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@\\+-]{0,254}\$?")
_JUMP = re.compile(r"[A-Za-z0-9_.@\[][A-Za-z0-9_.:%@,\[\]-]{0,1000}")
_LEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,254}")
_DISPLAY = re.compile(r":\d{1,5}(\.\d{1,2})?|[A-Za-z][A-Za-z0-9_.-]{0,100}")


@dataclass(frozen=True)
class SshConfig:
    """How a machine is reached over SSH; what is not given is as OpenSSH's own configuration says.

    host: a name, an address, or a `Host` of that configuration. lease: the name or hardware address by which the
    host's DHCP server knows it, where `host` is empty. config: a file in place of the user's and the system's
    configuration. pixels: whether its screen, keyboard and pointer are lent. display: the one of several desktop
    sessions that is meant.
    """

    host: str = ""
    lease: str = ""
    port: int | None = None
    user: str = ""
    identity_file: Path | None = None
    known_hosts: Path | None = None
    jump: str = ""
    config: Path | None = None
    pixels: bool = False
    display: str = ""

    @property
    def name(self) -> str:
        """The machine's place as people write it."""
        host = self.host or f"the machine of the lease {self.lease}"
        return host if self.port is None else f"{host} port {self.port}"

    @classmethod
    def parse(cls, table: Mapping[str, object], *, machine: str, folder: Path) -> SshConfig:
        """Check the table and return its values; paths are taken relative to `folder`.

        Raises ConfigError on the first mistake.
        """
        settings = Settings(table, f"machine {machine!r}, ssh", folder)
        settings.only(KEYS)
        host, lease = _place(settings)
        given = settings.values
        return cls(
            host=host,
            lease=lease,
            port=settings.whole("port", 22, 1, 65535) if "port" in given else None,
            user=_word(settings, "user", _USER, "the name of an account"),
            identity_file=_file(settings, "identity_file"),
            known_hosts=_file(settings, "known_hosts"),
            jump=_word(settings, "jump", _JUMP, "a host to go through, such as user@gateway"),
            config=_file(settings, "config"),
            pixels=settings.flag("pixels"),
            display=_word(settings, "display", _DISPLAY, 'a display such as ":0" or "wayland-1"'),
        )


def _place(settings: Settings) -> tuple[str, str]:
    """Host and lease, of which one is given."""
    host = _word(settings, "host", _HOST, "a host's name or address, without user and port")
    lease = _word(settings, "lease", _LEASE, "a hardware address such as 52:54:00:12:34:56, or a name")
    if not (host or lease):
        raise settings.mistake("host", 'is missing; give a name or an address, such as host = "192.0.2.7"')
    if host and lease:
        raise settings.mistake("lease", "host is given, too; remove one of them")
    return host, lease


def _word(settings: Settings, key: str, pattern: re.Pattern[str], what: str) -> str:
    if key not in settings.values:
        return ""
    text = settings.text(key, "")
    if not pattern.fullmatch(text):
        raise settings.mistake(key, f"must be {what}, not {text!r}")
    return text


def _file(settings: Settings, key: str) -> Path | None:
    if key not in settings.values:
        return None
    path = settings.file(key)
    # OpenSSH would replace or end at them.
    if re.search(r'["%\n]|\$\{', str(path)):
        raise settings.mistake(
            key, f"OpenSSH can't be given {str(path)!r}: rename it, without quotes, % and ${{"
        )
    return path
