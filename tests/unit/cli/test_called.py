"""Commands that are printed are as this program was called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reflexarc.cli.text import called, pasteable


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in a folder that is not on the path, whose name has a blank in it."""
    program = tmp_path / "my checkout" / "reflexarc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "argv", [str(program), "runs", "list"])
    return program


def test_by_its_path_where_it_is_not_on_the_path(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called() == f"'{checkout}'"
    monkeypatch.setenv("PATH", str(checkout.parent))
    assert called() == "reflexarc"
    other = checkout.parent.parent / "reflexarc"
    other.symlink_to(checkout)
    monkeypatch.setattr(sys, "argv", [str(other)])
    assert called() == "reflexarc"


def test_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/reflexarc/__main__.py"])
    assert called() == f"{sys.executable} -m reflexarc"


def test_only_commands_are_changed(checkout: Path) -> None:
    ours = called()
    assert pasteable("see `reflexarc runs list`; reflexarc is fine") == (
        f"see `{ours} runs list`; reflexarc is fine"
    )
    assert pasteable("reflexarc machines start lab1") == f"{ours} machines start lab1"
    assert pasteable("no `reflexarcs here`") == "no `reflexarcs here`"
