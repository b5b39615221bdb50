"""The scripts, in the shells that guests have."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflexarc.drivers.ssh.script import GO, TERMINATE, command_script, read_script, trailer_of, write_script
from reflexarc.machine.capabilities import Command

TOKEN = "0123456789abcdef" * 2
READY, END = f"{TOKEN} ready\n".encode(), f"{TOKEN} end ".encode()
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "ash"]}

WORDS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    return SHELLS[request.param]


def ran(
    shell: list[str], script: str, rest: bytes = b"", *, after: bytes = b"", ends: bool = True
) -> tuple[bytes, bytes, int | None]:
    """What the script's outputs bring between its marks, and the status it tells.

    rest: its further input, sent when the output has begun with `after`. ends: whether its input ends with that;
    it never does where there is none.
    """
    with subprocess.Popen(
        shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(script.encode())
        process.stdin.flush()
        assert process.stdout.readline() == READY
        process.stdin.write(GO)
        process.stdin.flush()
        assert process.stdout.read(len(after)) == after
        process.stdin.write(rest)
        process.stdin.flush()
        if rest and ends:
            process.stdin.close()
        said, _, end = process.stdout.read().partition(END)
        complaints = process.stderr.read().removeprefix(READY).partition(END)[0]
    return said, complaints, int(end)


def test_streams_status_and_surroundings(shell: list[str], tmp_path: Path) -> None:
    line = 'pwd; echo "$A" >&2; cat; exit 7'
    script = command_script(Command(line=line, cwd=str(tmp_path), env={"A": "x'\ny"}), TOKEN)
    assert ran(shell, script) == (f"{tmp_path}\n".encode(), b"x'\ny\n", 7)


def test_a_killed_command_is_told_without_a_word_of_the_shell(shell: list[str]) -> None:
    assert ran(shell, command_script(Command(argv=("sh", "-c", "kill -KILL $$")), TOKEN)) == (b"", b"", 137)


@settings(max_examples=25)
@given(st.lists(WORDS, max_size=5))
@pytest.mark.parametrize("name", list(SHELLS))
def test_words_arrive_as_they_are(name: str, words: list[str]) -> None:
    script = command_script(Command(argv=("printf", "%s\\0", *words)), TOKEN)
    expected = "".join(f"{word}\0" for word in words or [""]).encode()
    assert ran(SHELLS[name], script) == (expected, b"", 0)


def test_a_signals_name_is_passed_on(shell: list[str]) -> None:
    script = command_script(Command(line="trap 'exit 3' TERM; echo on; while :; do sleep 0.01; done"), TOKEN)
    assert ran(shell, script, TERMINATE, after=b"on\n", ends=False)[2] == 3


def test_the_end_of_the_input_kills_the_group(shell: list[str]) -> None:
    script = command_script(Command(line="trap '' TERM; echo on; sleep 1000 & wait"), TOKEN)
    assert ran(shell, script, TERMINATE, after=b"on\n") == (b"", b"", 128 + signal.SIGKILL)


def test_the_end_of_the_input_kills_a_group_that_has_hardly_begun(shell: list[str]) -> None:
    assert ran(shell, command_script(Command(line="sleep 1000"), TOKEN), b"\n")[2] == 128 + signal.SIGKILL


def test_a_file_is_read(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(bytes(range(256)))
    assert ran(shell, read_script(f"{tmp_path}/a b", TOKEN)) == (bytes(range(256)), b"", 0)


def test_a_file_that_comes_whole_is_put_there(shell: list[str], tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    script = write_script(f"{tmp_path}/it's", 0o700, TOKEN)
    assert ran(shell, script, content + trailer_of(len(content), TOKEN)) == (b"", b"", 0)
    assert (tmp_path / "it's").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["it's"]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"abc", id="cut early"),
        pytest.param(b"abc" + trailer_of(3, TOKEN)[:-1], id="cut in what ends it"),
        pytest.param(b"ab" + trailer_of(3, TOKEN), id="too short"),
        pytest.param(b"abcd" + trailer_of(3, TOKEN), id="too long"),
        pytest.param(bytes(100), id="zeros"),
    ],
)
def test_a_file_that_does_not_come_whole_leaves_nothing(
    shell: list[str], tmp_path: Path, sent: bytes
) -> None:
    status = ran(shell, write_script(f"{tmp_path}/file", 0o600, TOKEN), sent)[2]
    assert status not in (0, None)
    assert list(tmp_path.iterdir()) == []
