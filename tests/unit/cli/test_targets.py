"""What a report may be written over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflexarc.cli.report import check_targets
from reflexarc.errors import ConfigError


def test_only_plain_files_of_a_fitting_name_and_none_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    (tmp_path / "old.html").write_text("old")
    os.mkfifo(tmp_path / "fifo.html")
    (tmp_path / "full.html").symlink_to("/dev/full")
    (tmp_path / "link").symlink_to(tmp_path / "state")
    check_targets(tmp_path / "old.html", tmp_path / "new.xml", None)
    for name in (
        "fifo.html",
        "full.html",
        "reflexarc.toml",
        "state/runs.html",
        "link/audit.html",
        "none/x.html",
    ):
        with pytest.raises(ConfigError):
            check_targets(tmp_path / name)
    assert (tmp_path / "old.html").read_text() == "old"
