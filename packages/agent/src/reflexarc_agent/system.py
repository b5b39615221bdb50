"""Facts about the running system."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path


def name() -> str:
    return "macos" if sys.platform == "darwin" else "linux"


def boot_id() -> str:
    """Return what names this boot, another after each; a random one where the system has none."""
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        else:
            found = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        return found.strip().lower()
    except (OSError, subprocess.CalledProcessError):
        return str(uuid.uuid4())
