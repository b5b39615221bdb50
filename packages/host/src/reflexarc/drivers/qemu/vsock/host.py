"""What the device needs of the host: programs, and a way to those that listen for the guest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Stream(Protocol):
    """The host program's end of a connection. All that it does raises OSError where the program is gone."""

    def read_into(self, views: Sequence[memoryview]) -> int | None:
        """Read and return how many bytes: 0 at the end, None where there is nothing at present."""
        ...

    def write(self, views: Sequence[memoryview | bytes]) -> int:
        """Write what can be written without waiting, and return how many bytes that was."""
        ...

    def watch(self, *, reading: bool, writing: bool) -> None:
        """Say whether it is to be told when the program has written, and when it has read."""
        ...

    def gone(self) -> bool:
        """Tell whether the program has closed both directions."""
        ...

    def end_writing(self) -> None:
        """Let the program read the end of the stream."""
        ...

    def end_reading(self) -> None:
        """Let the program's next write fail."""
        ...

    def close(self) -> None: ...


class Host(Protocol):
    """Where the guest's connections go."""

    def connect(self, port: int) -> Stream | None:
        """Connect to what listens for the guest at a port of the host, None where nothing does."""
        ...
