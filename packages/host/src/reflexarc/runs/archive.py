"""The agent as one file, built by its own package, which this one doesn't know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reflexarc.errors import ConfigError

_TIMEOUT = 60.0


def build(target: Path) -> int:
    """Build the agent into a file and return its size in bytes; raises ConfigError where that can't be."""
    command = [sys.executable, "-m", "reflexarc_agent.archive", str(target)]
    try:
        built = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"can't build the agent: {error}", path=target) from error
    if built.returncode == 0:
        return target.stat().st_size
    said = built.stderr.strip().splitlines()[-1:] or [f"exit code {built.returncode}"]
    if "No module named" in said[0]:
        raise ConfigError(
            f"the agent is not installed beside reflexarc ({said[0].rpartition(': ')[2]}); install the package "
            f"reflexarc-agent for {sys.executable}"
        )
    raise ConfigError(said[0], path=target)
