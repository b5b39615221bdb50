"""exec, cp and the tables of ways into a guest, used wrongly: one line that says what to do, and nothing hangs."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from tests.e2e.conftest import Command, environment, start
from tests.e2e.test_guest_cli import GUEST, record

LONG = "x" * 300_000
PATIENCE = 30.0


@pytest.fixture
def guest(lab: Path) -> Path:
    """The machine `lab` with something inside."""
    record(
        lab, {**GUEST, "commands": {"both": {"stdout": "out\n", "stderr": "err\n"}, "long": {"stdout": LONG}}}
    )
    return lab


def in_shell(lab: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell in which `exec_lab` runs a command in the guest."""
    called = " ".join(start(("exec", "lab", "--", '"$@"')))
    return subprocess.run(
        ["bash", "-c", f"exec_lab() {{ {called}; }}; {line}"],
        cwd=lab, env=environment(lab, {}), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_streams_that_are_closed_or_full_are_no_mistake_of_ours(guest: Path) -> None:
    ran = in_shell(guest, "exec_lab both >&-")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "err\n")
    ran = in_shell(guest, "exec_lab both 2>&-")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "out\n", "")
    ran = in_shell(guest, "exec_lab both <&-")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "out\n", "err\n")
    ran = in_shell(guest, "exec_lab both >/dev/full")
    assert ran.returncode == 2
    assert ran.stderr.startswith("reflexarc: can't write the command's output: No space left on device; ")
    assert ran.stderr.count("\n") == 1
    ran = in_shell(guest, 'exec_lab long | head -c 3; echo " ${PIPESTATUS[*]}"')
    assert (ran.stdout, ran.stderr) == ("xxx 1 0\n", "")


def test_an_interrupt_ends_a_command_whose_output_nobody_reads(guest: Path) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(
        start(("exec", "lab", "--", "long")),
        cwd=guest,
        env=environment(guest, {}),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.DEVNULL,
    ) as running:
        os.close(writing)
        try:
            deadline = time.monotonic() + PATIENCE
            while waiting(reading) < select.PIPE_BUF:
                assert running.poll() is None
                assert time.monotonic() < deadline
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE) == 130
        finally:
            running.kill()
            os.close(reading)


def waiting(pipe: int) -> int:
    """How many bytes are in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("lab:/etc/hostname", "", "TARGET is empty"),
        ("lab:/etc/hostname", "~no-such-account/x", "no account whose home is ~no-such-account/x; name another"),
        ("lab:/etc/hostname", "gone/x", "there is no folder gone; name another one"),
        ("lab:/etc/hostname", "fifo", "fifo is there and is no plain file; name another one"),
        ("lab:/etc/hostname", "/proc/x", "nothing is written to /proc/x: reflexarc or the system keeps it; name an"),
        ("~no-such-account/x", "lab:/tmp/x", "there is no plain file '~no-such-account/x'"),
        ("", "lab:/tmp/x", "there is no plain file ''"),
    ],
)  # fmt: skip
def test_paths_of_cp_that_are_none(
    command: Command, guest: Path, source: str, target: str, said: str
) -> None:
    os.mkfifo(guest / "fifo")
    ran = command("cp", source, target)
    assert ran.returncode in (1, 2)
    assert said in ran.stderr.splitlines()[-1]
    assert "--var" not in ran.stderr


AGENT = 'drivers = ["agent"]\n[machines.m.agent]\nenabled = true\n'
TCP = f'{AGENT}transport = "tcp"\n'
SSH = 'drivers = ["ssh"]\n[machines.m.ssh]\n'
NO_HOME = "this host has no account whose home is ~no-such-account"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('drivers = ["agent"]', "is switched off: set `enabled = true` in [machines.m.agent]"),
        (AGENT.replace("true", "false"), "is switched off: set `enabled = true` in [machines.m.agent]"),
        (f'{AGENT}transport = "unix"\npath = "~no-such-account/x"', f"machine 'm', agent.path: {NO_HOME}"),
        (f'{TCP}token = "file:~no-such-account/x"', f"machine 'm', agent.token: {NO_HOME}"),
        (f'{TCP}host = "a..b"\ntoken = "env:X"', "machine 'm', agent.host: must be a host's name or address"),
        (f'{SSH}host = "h"\nidentity_file = "~no-such-account/x"', f"machine 'm', ssh.identity_file: {NO_HOME}"),
    ],
)  # fmt: skip
def test_tables_that_are_wrong(command: Command, lab: Path, table: str, said: str) -> None:
    (lab / "wrong.toml").write_text(f"[machines.m]\n{table}\n")
    for words in (("exec", "m", "true"), ("ax", "dump", "m"), ("cp", "m:/x", "y")):
        ran = command(*words[:-1], "--inventory", "wrong.toml", words[-1])
        assert ran.returncode in (1, 2)
        assert said in ran.stderr
        assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("exec lab --timeout nan x", "'nan' is no time"),
        ("ax wait lab --name x --timeout nan", "'nan' is no time"),
        ("ax at lab nan 1", "Invalid value for 'X'"),
        ("ax at lab 1 inf", "Invalid value for 'Y'"),
        ("agent install lab --via ssh", "lab has no ssh among its `drivers`"),
        ("agent install lab --dry-run --unix=", "--unix takes a PATH, not ''"),
        ("agent install lab --dry-run --virtio-serial=", "--virtio-serial takes a NAME, not ''"),
        ("agent install lab --dry-run -- --unix", "--unix takes a PATH, not ''"),
        ("agent install lab --dry-run -- --unix --tcp 127.0.0.1", "--unix takes a PATH, not '--tcp'"),
    ],
)
def test_arguments_that_are_wrong(command: Command, guest: Path, words: str, said: str) -> None:
    ran = command(*words.split())
    assert ran.returncode == 2
    assert said in ran.stderr.splitlines()[-1]
    assert ran.stdout == ""
