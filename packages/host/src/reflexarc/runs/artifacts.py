"""What a run leaves beside the journal: a folder of its own with the frames of its escalations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reflexarc.errors import JournalError

if TYPE_CHECKING:
    from reflexarc.machine.frame import Frame


class RunFolder:
    """The folder of one run, made private to the user."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.path = root / run_id
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JournalError(f"can't make the run's folder: {error.strerror}", path=self.path) from error

    @property
    def lock(self) -> Path:
        """File whose lock the process that drives the run holds."""
        return self.path / "lock"

    def store(self, frame: Frame, name: str) -> str:
        """Write a frame as PNG and return its name in the folder; raises JournalError when it can't."""
        target = self.path / f"{name}.png"
        try:
            target.write_bytes(frame.png())
        except OSError as error:
            raise JournalError(f"can't store a frame: {error.strerror}", path=target) from error
        return target.name
