"""One journal, open several times in one process and in others."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from reflexarc.runs.journal import Journal

OTHER = """
import sys
from pathlib import Path
from reflexarc.runs.journal import Journal
journal = Journal(Path(sys.argv[1]))
assert journal.runs() == []
journal.close()
"""


def test_another_process_leaves_the_log_to_who_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with closing(Journal(path)) as kept:
        assert kept.runs() == []
        for _ in range(3):
            Journal(path).close()
        assert (tmp_path / "runs.sqlite-wal").exists()
        subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True, timeout=60)
        assert (tmp_path / "runs.sqlite-wal").exists()
        kept.give_up("none", "nobody")
        assert kept.runs() == []
