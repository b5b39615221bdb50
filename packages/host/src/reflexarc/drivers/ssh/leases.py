"""The leases of macOS's DHCP server, which gives virtual machines on its shared network their addresses."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

LEASES = Path("/var/db/dhcpd_leases")
MAX_SIZE = 1_000_000
_HARDWARE = re.compile(r"[0-9A-Fa-f]{1,2}(:[0-9A-Fa-f]{1,2}){5}")


def leased_address(text: str, wanted: str) -> str | None:
    """The address of the newest lease that has the name or the hardware address; None where there is none.

    Source: macOS, bootpd(8): blocks of `key=value` in braces, `hw_address=1,` and bytes without leading zeros.
    """
    found: tuple[int, str] | None = None
    for block in re.findall(r"\{([^{}]*)\}", text[:MAX_SIZE]):
        lease = dict(line.strip().split("=", 1) for line in block.splitlines() if "=" in line)
        hardware = lease.get("hw_address", "").partition(",")[2]
        if wanted not in (lease.get("name"), hardware) and not _is_same_card(hardware, wanted):
            continue
        address, ends = lease.get("ip_address", ""), _number(lease.get("lease", ""))
        if _is_address(address) and (found is None or ends >= found[0]):
            found = ends, address
    return None if found is None else found[1]


def _is_same_card(one: str, other: str) -> bool:
    if not (_HARDWARE.fullmatch(one) and _HARDWARE.fullmatch(other)):
        return False
    return [int(part, 16) for part in one.split(":")] == [int(part, 16) for part in other.split(":")]


def _number(text: str) -> int:
    return int(text, 16) if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text) else 0


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
