"""The audit log as a file: who writes it, how, and what happens when it can't be written."""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reflexarc.errors import JournalError
from reflexarc.machine.audit import MAX_LINE, AuditLog


def test_a_line_says_when_and_by_which_user(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "state" / "audit.jsonl")
    log.write({"operation": "power.reset", "machine": "lab", "allowed": True, "why": "granted"})
    (line,) = log.read()
    assert line["user"] == pwd.getpwuid(os.getuid()).pw_name
    assert isinstance(line["at"], float)
    assert (line["operation"], line["why"]) == ("power.reset", "granted")
    assert (tmp_path / "state" / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_many_programs_write_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from reflexarc.machine.audit import AuditLog; "
        "log = AuditLog(Path(sys.argv[1])); "
        "[log.write({'operation': 'keyboard.type', 'writer': sys.argv[2], 'n': n, 'text': 'x' * 400})"
        " for n in range(200)]"
    )
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), str(n)]) for n in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for writer in range(4):
        assert [line["n"] for line in lines if line["writer"] == str(writer)] == list(range(200))


def test_a_full_disk_is_an_error_and_what_follows_can_be_read(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write({"operation": "observe.frames"})
    size = (tmp_path / "audit.jsonl").stat().st_size
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        for _ in range(2):
            with pytest.raises(JournalError, match="nothing was sent"):
                log.write({"operation": "power.off", "allowed": True})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    log.write({"operation": "power.on"})
    log.write({"operation": "power.reset"})
    operations = [line["operation"] for line in log.read()]
    assert operations[0] == "observe.frames"
    assert operations[-1] == "power.reset"
    assert "power.off" not in operations


@pytest.mark.parametrize("place", ["/dev/full", "folder"])
def test_what_is_no_file_to_write_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalError):
        AuditLog(tmp_path / place).write({"operation": "power.off"})


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError):
        AuditLog(tmp_path / "audit.jsonl").write({"operation": "power.off"})
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_lines_are_bounded(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write({"operation": "keyboard.type", "text": "\x00" * 100_000})
    log.write({"operation": "keyboard.press", "keys": ["x" * 10_000] * 1000, "odd": {"a": ["b" * 10_000]}})
    assert all(len(line) < MAX_LINE for line in (tmp_path / "audit.jsonl").read_bytes().splitlines())
    assert [line["operation"] for line in log.read()] == ["keyboard.type", "keyboard.press"]
