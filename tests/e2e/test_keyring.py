"""Secrets in the system's keyring: the library's own configuration names a backend that keeps them in a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Command
from tests.played import PASSWORD

# What keyring's own configuration can name: one kept in a file, and one that is locked.
BACKENDS = """
import json
from pathlib import Path
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

class InFile(KeyringBackend):
    priority = 1
    kept = Path(__file__).with_name("kept.json")
    def _all(self):
        return json.loads(self.kept.read_text()) if self.kept.exists() else {}
    def get_password(self, service, username):
        return self._all().get(f"{service}/{username}")
    def set_password(self, service, username, password):
        self.kept.write_text(json.dumps({**self._all(), f"{service}/{username}": password}))
    def delete_password(self, service, username):
        raise NotImplementedError

class Locked(InFile):
    def get_password(self, service, username):
        raise KeyringLocked("the user dismissed the prompt")
"""
FROM_KEYRING = ("run", "played.yaml", "-m", "lab", "--secret", "password=keyring:lab root", "--json")


@pytest.fixture
def path(lab: Path) -> str:
    """A module path on which the backends stand."""
    (lab / "ring").mkdir()
    (lab / "ring" / "backends.py").write_text(BACKENDS)
    return os.pathsep.join([str(lab / "ring"), *sys.path])


def test_a_secret_from_the_keyring(command: Command, lab: Path, path: str) -> None:
    (lab / "ring" / "kept.json").write_text(json.dumps({"reflexarc/lab root": PASSWORD}))
    ring = {"PYTHON_KEYRING_BACKEND": "backends.InFile", "PYTHONPATH": path}
    done = command(*FROM_KEYRING, **ring)
    held = json.loads(done.stdout)
    assert (done.returncode, held["reason"], held["step_name"]) == (3, "needs_authorization", "down")
    # Another process finds it again by what the journal keeps of it: where it is, never what it is.
    again = command("runs", "reply", held["run_id"], "amend", "--resume-at", "off", **ring)
    assert again.returncode == 0, again.stderr
    for file in (lab / "state").rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("backends.InFile", "no entry 'lab root' of the service reflexarc"),
        ("backends.Locked", "is locked: unlock it"),
        ("keyring.backends.fail.Keyring", "this system offers none"),
    ],
)
def test_a_keyring_that_does_not_tell(
    command: Command, lab: Path, path: str, backend: str, says: str
) -> None:
    done = command(*FROM_KEYRING, PYTHON_KEYRING_BACKEND=backend, PYTHONPATH=path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert says in done.stderr
    assert command("runs", "list").stdout == ""


def test_without_the_library_it_says_what_to_install(command: Command, lab: Path, path: str) -> None:
    (lab / "ring" / "keyring.py").write_text("raise ImportError('as if it were not installed')\n")
    done = command(*FROM_KEYRING, PYTHONPATH=path)
    assert (done.returncode, "pip install 'reflexarc[keyring]'" in done.stderr) == (2, True)
    # Nothing else needs it.
    assert command("runs", "list", PYTHONPATH=path).returncode == 0
