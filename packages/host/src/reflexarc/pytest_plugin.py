"""A pytest plugin: the fixture `reflexarc` opens machines and closes them after the test.

When the test fails, what each machine showed is added to its report, and its frame is stored in `tmp_path`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reflexarc.sync import Machine

_INVENTORY = "reflexarc.toml"
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test failed."""
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


class Machines:
    """Opens machines for one test."""

    def __init__(self, stack: ExitStack, root: Path) -> None:
        self._stack = stack
        self._root = root
        self.opened: dict[str, Machine] = {}

    def open(self, name: str, *, grant: Sequence[str] = (), inventory: Path | None = None) -> Machine:
        """Open a machine of the inventory; it is closed when the test ends.

        Where the folder that pytest was started in has no inventory, that of its rootdir serves.
        """
        from reflexarc import sync

        if inventory is None and "REFLEXARC_INVENTORY" not in os.environ and not Path(_INVENTORY).exists():
            inventory = self._root / _INVENTORY if (self._root / _INVENTORY).exists() else None
        machine = self._stack.enter_context(sync.open(name, grant=grant, inventory=inventory))
        self.opened[name] = machine
        return machine


@pytest.fixture
def reflexarc(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    """Machines by name: `reflexarc.open("lab1")`, with the calls of `reflexarc.sync`."""
    with ExitStack() as stack:
        machines = Machines(stack, request.config.rootpath)
        yield machines
        if request.node.stash.get(_FAILED, False):
            for name, machine in machines.opened.items():
                _report(request.node, name, machine, tmp_path)


def _report(item: pytest.Item, name: str, machine: Machine, folder: Path) -> None:
    from reflexarc.errors import MachineError

    try:
        seen = machine.observe()
        picture = folder / f"{name}.png"
        picture.write_bytes(machine.screenshot().png())
    except MachineError as error:
        item.add_report_section("teardown", f"machine {name}", str(error))
        return
    text = f"{seen.phase} (confidence {seen.confidence:.2f}, {seen.rung}); frame: {picture}\n{seen.text}"
    item.add_report_section("teardown", f"machine {name}", text)
