from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import reflexarc_agent
from reflexarc_agent.archive import build, main


def test_the_archive_is_small_executable_and_the_same_each_time(tmp_path: Path) -> None:
    one, two = tmp_path / "one.pyz", tmp_path / "two.pyz"
    size = build(one)
    build(two)
    assert one.read_bytes() == two.read_bytes()
    assert (one.stat().st_size, os.access(one, os.X_OK)) == (size, True)
    assert size < 250_000
    found = subprocess.run([one, "--version"], check=True, capture_output=True, text=True)
    assert found.stdout == f"reflexarc-agent {reflexarc_agent.VERSION}\n"


def test_it_holds_our_two_packages_and_nothing_else(tmp_path: Path) -> None:
    build(tmp_path / "agent.pyz")
    names = zipfile.ZipFile(tmp_path / "agent.pyz").namelist()
    assert {name.partition("/")[0] for name in names} == {"__main__.py", "reflexarc_agent", "reflexarc_wire"}
    assert {"reflexarc_agent/transports/tcp.py", "reflexarc_wire/framing.py"} <= set(names)


def test_a_python_without_zlib_is_told_what_is_missing(tmp_path: Path) -> None:
    build(tmp_path / "agent.pyz")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['zlib'] = None\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, tmp_path / "agent.pyz"], env=environ, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (
        1,
        "reflexarc-agent needs a Python with zlib: install that of the distribution\n",
    )


def test_a_target_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    assert main([str(tmp_path / "no" / "folder.pyz")]) == 1
    assert main([]) == 2
