"""Where the server listens over HTTP."""

from __future__ import annotations

from ipaddress import ip_address

from reflexarc.errors import ConfigError


def parsed(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; raises ConfigError."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"--http takes HOST:PORT, such as 127.0.0.1:8765, not {address!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
