"""The agent as one file, under every Python that is here."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agents import PATIENCE, environment
from tests.unit.wire.transcripts import NAMES, connections

from reflexarc_wire import VERSION


def pythons() -> dict[tuple[int, int], str]:
    """One interpreter of each version that pyenv and PATH have, this one's own included."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    # What pyenv puts on PATH only points at its versions, and not at all of them.
    folders = [*map(Path, os.get_exec_path()), *(version / "bin" for version in pyenv.glob("3.*"))]
    found = {
        (3, minor): str(path)
        for minor in range(6, 20)
        for folder in folders
        if (path := folder / f"python3.{minor}").exists()
    }
    return {**found, sys.version_info[:2]: sys.executable}


PYTHONS = pythons()
CAPABLE = [version for version in PYTHONS if version >= (3, 9)]
TOO_OLD = [version for version in PYTHONS if version < (3, 9)]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "reflexarc-agent.pyz"
    subprocess.run(
        [sys.executable, "-m", "reflexarc_agent.archive", str(target)], env=environment(), check=True
    )
    return target


def run(
    python: tuple[int, int], archive: Path, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [PYTHONS[python], "-I", "-W", "error", str(archive), *arguments],
        env=bare,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("python", CAPABLE, ids=str)
def test_the_agent_runs_as_one_file(python: tuple[int, int], archive: Path, tmp_path: Path) -> None:
    path, content = str(tmp_path / "f"), base64.b64encode(b"hallo").decode()
    requests = [
        {"op": "hello", "id": 1},
        {"op": "write_file", "path": path, "data": content, "offset": 0, "size": 5},
        {"op": "read_file", "path": path},
        {"op": "fly"},
    ]
    stdin = b"".join(json.dumps(request).encode() + b"\n" for request in requests) + b"\xff\n"
    found = run(python, archive, "--stdio", "--headless", stdin=stdin)
    assert found.stderr == b""
    replies = [json.loads(line) for line in found.stdout.splitlines()]
    assert (replies[0]["version"], replies[0]["id"]) == (VERSION, 1)
    assert replies[2]["data"] == content
    assert [reply.get("code") for reply in replies] == [None, None, None, "unsupported", "bad_request"]


@pytest.mark.parametrize("python", CAPABLE, ids=str)
@pytest.mark.parametrize("pty", [None, {"cols": 80, "rows": 24}])
def test_it_runs_commands(python: tuple[int, int], archive: Path, pty: object) -> None:
    request = {"op": "exec", "argv": ["sh", "-c", "read line; echo got $line; exit 6"], "pty": pty}
    process = subprocess.Popen(
        [PYTHONS[python], "-I", "-W", "error", str(archive), "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(request).encode() + b'\n{"t":"i","d":"aGkK"}\n')
        process.stdin.flush()
        frames: list[dict[str, object]] = []
        while not frames or frames[-1]["t"] not in ("x", "err"):
            frames.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert frames[-1] == {"t": "x", "code": 6}
        output = b"".join(base64.b64decode(str(frame["d"])) for frame in frames[:-1])
        assert b"got hi" in output
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 0


# Both ends read every recorded line and say it again.
REPLAY = """
import json, sys
sys.path.insert(0, sys.argv[1])
from reflexarc_wire import Answer, Asked, GuestEnd, HostEnd, write_event, write_reply
from reflexarc_wire.frames import write_frame
from reflexarc_wire.values import EVENTS

def again(found, host):
    if isinstance(found, Asked):
        return host.ask(found.request, found.id)
    if isinstance(found, Answer):
        return write_reply(found.reply, found.id)
    return write_event(found) if isinstance(found, tuple(EVENTS.values())) else write_frame(found)

lines = 0
for connection in json.load(sys.stdin):
    host, guest = HostEnd(), GuestEnd()
    for speaker, text in connection:
        end, line = guest if speaker == ">" else host, text.encode()
        end.feed(line)
        assert again(end.next(), host) == line, line
        lines += 1
print(lines)
"""


@pytest.mark.parametrize("python", CAPABLE, ids=str)
def test_the_protocol_is_the_same(python: tuple[int, int], archive: Path) -> None:
    said = [[(who, line.decode()) for who, line in block] for name in NAMES for block in connections(name)]
    found = subprocess.run(
        [PYTHONS[python], "-I", "-W", "error", "-c", REPLAY, str(archive)],
        input=json.dumps(said).encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (found.stdout.decode().strip(), found.stderr) == (str(sum(map(len, said))), b"")


@pytest.mark.parametrize("python", TOO_OLD, ids=str)
def test_a_python_that_is_too_old_is_told_what_is_needed(python: tuple[int, int], archive: Path) -> None:
    found = run(python, archive, "--version")
    assert (found.returncode, found.stdout) == (1, b"")
    assert (
        found.stderr.decode().strip() == f"reflexarc-agent needs Python 3.9 or newer, this is 3.{python[1]}"
    )
