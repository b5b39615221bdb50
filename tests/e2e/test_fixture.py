"""The pytest fixture: which inventory it opens machines of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import environment

TEST = "def test_off(reflexarc):\n    assert reflexarc.open('lab').observe().phase == 'power_off'\n"


def test_the_inventory_of_the_rootdir_serves_where_there_is_no_nearer_one(lab: Path) -> None:
    below = lab / "tests" / "deep"
    below.mkdir(parents=True)
    (lab / "pytest.ini").write_text("[pytest]\n")
    (below / "test_lab.py").write_text(TEST)

    def tested(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lab.py"],
            cwd=below, env={**environment(lab, more), "PYTHONPATH": os.pathsep.join(sys.path)}, text=True,
            capture_output=True, timeout=100, check=False,
        )  # fmt: skip

    found = tested()
    assert found.returncode == 0, found.stdout
    # What is said by a variable, or lies nearer, goes first.
    assert (
        "none.toml: can't read the inventory" in tested(REFLEXARC_INVENTORY=str(below / "none.toml")).stdout
    )
    (below / "reflexarc.toml").write_text("[machines]\n")
    assert "there is no machine 'lab'" in tested().stdout
