"""The command line as a process, in a folder with an inventory that has a played machine `lab`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from tests.played import PASSWORD, PLAYBOOK, write_recording

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with an inventory, a played machine `lab`, a playbook and a secret."""
    write_recording(tmp_path)
    (tmp_path / "played.yaml").write_text(yaml.safe_dump(PLAYBOOK))
    (tmp_path / "secret").write_text(PASSWORD + "\n")
    return tmp_path


@pytest.fixture
def command(lab: Path) -> Command:
    def run(*arguments: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            start(arguments), cwd=lab, env=environment(lab, more), input=stdin or "", text=True,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def start(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "reflexarc", *arguments]


def environment(lab: Path, more: dict[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        "REFLEXARC_STATE": str(lab / "state"),
        "XDG_CONFIG_HOME": str(lab / "config"),
        **more,
    }


def end_vms(folder: Path) -> None:
    """End the virtual machines whose state is below a folder: no script may switch one off without a grant."""
    for kept in folder.rglob("qemu.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(kept.read_text()), signal.SIGTERM)
