"""The recorder: drives machines of `guests.scenes` and keeps pictures with their text and phase.

    python -m guests.record [--to FOLDER] [SCENE ...]

Writes NAME.png and, where the text is known from another source than the picture, NAME.txt; phases.json says
which phase each shows. Needs root for nothing; the packages it takes files from are named where they are used.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from guests.vm import PATIENCE, Machine, same

SCREENS = Path(__file__).parents[1] / "tests" / "screens"
Truth = Callable[[Machine], list[str]]


class Recorder:
    """Where a scene's machines work and what they showed is kept."""

    def __init__(self, work: Path, screens: Path) -> None:
        self.work = work
        self._screens = screens
        self._count = 0

    def folder(self) -> Path:
        """A new empty folder for media or a machine."""
        self._count += 1
        folder = self.work / str(self._count)
        folder.mkdir()
        return folder

    @contextmanager
    def machine(self, *options: str, folder: Path | None = None) -> Iterator[Machine]:
        """A machine that runs while the context is open."""
        with Machine(options, folder or self.folder()) as machine:
            yield machine

    def until(self, machine: Machine, truth: Truth, pattern: str, *, patience: float = PATIENCE) -> None:
        """Wait until the true text of the screen matches."""
        deadline = time.monotonic() + patience
        while not re.search(pattern, text := "\n".join(truth(machine)), re.MULTILINE):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the screen never said {pattern!r}:\n{text}")
            time.sleep(0.2)

    def keep(
        self,
        machine: Machine,
        name: str,
        phase: str | None,
        truth: Truth | None = None,
        *,
        hidden: tuple[int, int, int, int] | None = None,
    ) -> None:
        """Keep what the machine shows at this moment as a picture of that phase (None: of no phase).

        hidden: a box to paint over, where the guest shows artwork that is not ours to keep.
        """
        machine.execute("stop")
        picture, lines = machine.picture(), truth(machine) if truth else None
        if hidden is not None:
            picture.paste((0, 64, 96), hidden)
        machine.execute("cont")
        self._write(name, phase, picture, lines)

    def keep_answered(self, machine: Machine, name: str, phase: str | None, truth: Truth) -> None:
        """As `keep`, where the guest itself must run to tell its text: the picture must stand still meanwhile."""
        for _ in range(20):
            before, lines, after = machine.picture(), truth(machine), machine.picture()
            if same(before, after):
                self._write(name, phase, before, lines)
                return
        raise TimeoutError(f"{name}: the picture never stood still")

    def _write(self, name: str, phase: str | None, picture: Image.Image, lines: Sequence[str] | None) -> None:
        small = picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=256)
        exact = small.convert("RGB").tobytes() == picture.tobytes()
        (small if exact else picture).save(self._screens / f"{name}.png", optimize=True)
        if lines is not None:
            text = "\n".join(line.rstrip() for line in lines).rstrip("\n")
            (self._screens / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        index = self._screens / "phases.json"
        phases = json.loads(index.read_text()) if index.exists() else {}
        phases[name] = phase
        index.write_text(json.dumps(dict(sorted(phases.items())), indent=1) + "\n")
        print(f"  {name}: {phase}", file=sys.stderr)


def main() -> None:
    from guests.scenes import SCENES

    parser = argparse.ArgumentParser(prog="python -m guests.record", description="Record screens of guests.")
    parser.add_argument("--to", type=Path, default=SCREENS, help="folder to write to (default: %(default)s)")
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"of: {', '.join(SCENES)} (default: all)")
    chosen = parser.parse_args()
    for name in chosen.scenes or SCENES:
        if name not in SCENES:
            parser.error(f"there is no scene {name!r}")
    chosen.to.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in chosen.scenes or SCENES:
        print(name, file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="reflexarc-record-") as work:
            try:
                SCENES[name](Recorder(Path(work), chosen.to))
            except (OSError, RuntimeError, TimeoutError) as error:
                failed.append(name)
                print(f"{name} failed: {error}", file=sys.stderr)
    if failed:
        sys.exit(f"not recorded: {', '.join(failed)}")


if __name__ == "__main__":
    main()
