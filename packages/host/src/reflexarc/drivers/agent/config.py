"""The `agent` table of a machine's inventory entry."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reflexarc.errors import ConfigError
from reflexarc.machine import keyring
from reflexarc.machine.settings import Settings
from reflexarc.plainfiles import read_plain
from reflexarc_wire import PORT

TRANSPORTS: Mapping[str, tuple[str, ...]] = {
    "vsock": ("cid", "port"),
    "hybrid": ("path", "port"),
    "unix": ("path",),
    "tcp": ("host", "port", "ca", "server_name"),
    "virtio_serial": ("path",),
    "stdio": ("command",),
    "reverse": ("path", "port"),
}
"""Transport -> the settings that go with it."""

COMMON = ("enabled", "pixels", "transport", "token")
MAX_PATH = 107
"""The longest name of a unix socket, in bytes, of the systems there are. Source: unix(7)."""

MIN_TOKEN, MAX_TOKEN = 32, 4096


@dataclass(frozen=True)
class AgentConfig:
    """Whether the agent is used, and how it is reached; only what goes with the transport is set.

    pixels: whether it lends screen, keyboard and pointer, too. token: `env:NAME`, `file:PATH` or `keyring:NAME`,
    never the token itself. ca: a PEM file with the authority, or the certificate itself, that the agent must show;
    tls: whether TLS is spoken at all. server_name: the name in that certificate where it isn't `host`.
    """

    enabled: bool = False
    pixels: bool = False
    transport: str = "vsock"
    path: Path | None = None
    own_vsock: bool = False
    host: str = ""
    port: int = PORT
    cid: int = 0
    tls: bool = False
    ca: Path | None = None
    server_name: str = ""
    command: tuple[str, ...] = ()
    token: str = ""

    @classmethod
    def parse(
        cls, table: Mapping[str, object], *, machine: str, folder: Path, own_vsock: bool = False
    ) -> AgentConfig:
        """Check the table and return its values; paths are taken relative to `folder`.

        own_vsock: whether the machine's own driver gives it a vsock. Raises ConfigError on the first mistake.
        """
        settings = Settings(table, f"machine {machine!r}, agent", folder)
        transport = settings.choice("transport", "vsock", tuple(TRANSPORTS))
        _only(settings, transport)
        config = cls(
            enabled=settings.flag("enabled"),
            pixels=settings.flag("pixels"),
            transport=transport,
            port=settings.whole("port", PORT, 1, (1 << 32) - 1 if transport != "tcp" else 65535),
            token=_token(settings),
        )
        # What is switched off needn't be complete.
        return _completed(config, settings, own_vsock) if config.enabled else config

    def secret(self, machine: str) -> str | None:
        """The token, None where there is none to bring; raises ConfigError, which never holds it."""
        if not self.token:
            return None
        value = _value(self.token, machine).strip()
        if not (value.isascii() and value.isprintable() and MIN_TOKEN <= len(value) <= MAX_TOKEN):
            raise _mistake(machine, f"{self.token} holds no token of at least {MIN_TOKEN} ASCII characters")
        return value


def _only(settings: Settings, transport: str) -> None:
    """Refuse settings that there aren't, and those of another transport."""
    settings.only((*COMMON, *dict.fromkeys(key for keys in TRANSPORTS.values() for key in keys)))
    for key in settings.values:
        if key not in COMMON and key not in TRANSPORTS[transport]:
            owners = ", ".join(name for name, keys in TRANSPORTS.items() if key in keys)
            raise settings.mistake(
                key, f"goes with the transport {owners}, not with {transport}; remove it, or set transport"
            )


def _completed(config: AgentConfig, settings: Settings, own_vsock: bool) -> AgentConfig:
    """The settings that belong to the transport."""
    match config.transport:
        case "vsock":
            return _vsock(config, settings, own_vsock)
        case "tcp":
            return _tcp(config, settings)
        case "stdio":
            command = settings.texts("command")
            if not command:
                raise settings.mistake(
                    "command", 'is missing; as in ["ssh", "lab1", "reflexarc-agent", "--stdio"]'
                )
            return replace(config, command=command)
        case "reverse" if "path" not in settings.values and own_vsock:
            return replace(config, own_vsock=True)
        case "reverse":
            return replace(config, path=_socket(settings, f"_{config.port}"))
        case _:
            return replace(config, path=_socket(settings))


def _vsock(config: AgentConfig, settings: Settings, own_vsock: bool) -> AgentConfig:
    if "cid" in settings.values:
        return replace(config, cid=settings.whole("cid", 0, 3, (1 << 32) - 2))
    if not own_vsock:
        raise settings.mistake(
            "cid",
            "is missing: the number of the guest; or give a machine that is launched here `vsock = true` in its qemu "
            "table, or name another transport",
        )
    return replace(config, own_vsock=True)


def _tcp(config: AgentConfig, settings: Settings) -> AgentConfig:
    host = settings.text("host", "")
    if not config.token:
        raise settings.mistake("token", 'is missing: over TCP an agent wants one; as in "file:lab1.token"')
    ca = settings.file("ca") if "ca" in settings.values else None
    server_name = settings.text("server_name", host)
    for key, name in (("host", host), ("server_name", server_name)):
        if not _is_name(name):
            raise settings.mistake(key, f"must be a host's name or address, not {name!r}")
    return replace(
        config, host=host, ca=ca, server_name=server_name, tls=ca is not None or not _is_loopback(host)
    )


def _socket(settings: Settings, ending: str = "") -> Path:
    """The socket's name; ending: what is put behind it."""
    path = settings.path("path")
    most = MAX_PATH - len(ending)
    if len(os.fsencode(path)) > most:
        raise settings.mistake("path", f"is longer than the {most} bytes that a socket's name may have here")
    return path


def _token(settings: Settings) -> str:
    """The reference to the token, a file's with its folder."""
    if "token" not in settings.values:
        return ""
    reference = settings.text("token", "")
    kind, _, where = reference.partition(":")
    if kind not in ("env", "file", "keyring") or not where:
        # What was written may be the token itself.
        raise settings.mistake(
            "token", 'says where the token is: "env:NAME", "file:PATH" or "keyring:NAME", never the token'
        )
    return f"file:{settings.located('token', where)}" if kind == "file" else reference


def _value(reference: str, machine: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "keyring":
        return keyring.password(f"machine {machine!r}, agent.token", where)
    if kind == "env":
        if (value := os.environ.get(where)) is None:
            raise _mistake(machine, f"{where} is not set in the environment; set it to the agent's token")
        return value
    try:
        return read_plain(Path(where), MAX_TOKEN, private=True).decode("latin-1")
    except OSError as error:
        raise _mistake(machine, f"can't read {where}: {error.strerror}") from error


def _mistake(machine: str, problem: str) -> ConfigError:
    return ConfigError(f"machine {machine!r}, agent.token: {problem}")


def _is_name(host: str) -> bool:
    """Tell whether the resolver takes it: no part of a name is empty, or longer than 63 bytes."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
