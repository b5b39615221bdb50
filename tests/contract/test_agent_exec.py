from __future__ import annotations

import os
import pwd
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents import PATIENCE, Agent, Outcome, ended, running

from reflexarc_wire.frames import Credit, EndOfInput, Exit, NotStarted, Signal, Stderr, Stdin, Stdout
from reflexarc_wire.requests import Exec, Ping

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock") as agent:
        yield agent


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("printf 'a\\0b\\377'; printf bad >&2; exit 3", Outcome(b"a\0b\xff", b"bad", Exit(3))),
        ("true", Outcome(b"", b"", Exit(0))),
        ("kill -9 $$", Outcome(b"", b"", Exit(137))),
        ("exec 1>&- 2>&-; exit 7", Outcome(b"", b"", Exit(7))),
        ("cat", Outcome(b"", b"", Exit(0))),
    ],
)
def test_a_command_gives_its_output_and_its_code(agent: Agent, command: str, expected: Outcome) -> None:
    assert agent.run(Exec(command=command), EndOfInput()) == expected


def test_argv_meets_no_shell(agent: Agent) -> None:
    text = "$HOME `id` * ; exit 4 'ü"
    assert agent.run(Exec(argv=("printf", "%s", text))) == Outcome(text.encode(), b"", Exit(0))


def test_a_command_has_the_environment_and_the_folder_asked_for(agent: Agent, tmp_path: Path) -> None:
    request = Exec(command='pwd; echo "$COLOUR"', cwd=str(tmp_path), env={"COLOUR": "blue = red"})
    assert agent.run(request).stdout.decode() == f"{tmp_path}\nblue = red\n"


def test_without_being_told_a_command_runs_in_its_accounts_home_and_shell(agent: Agent) -> None:
    me = pwd.getpwuid(os.geteuid())
    found = (
        agent.run(Exec(command='pwd; echo "$HOME $SHELL"; readlink /proc/$$/exe; :'))
        .stdout.decode()
        .splitlines()
    )
    assert found == [os.path.realpath(me.pw_dir), f"{me.pw_dir} {me.pw_shell}", os.path.realpath(me.pw_shell)]


def test_another_account_brings_its_own_groups_and_environment_only(agent: Agent) -> None:
    found = agent.run(Exec(argv=("sh", "-c", "id -u; id -G; env"), user="nobody", env={"A": "1"}))
    if os.geteuid() != 0:
        assert isinstance(found.last, NotStarted)
        assert found.last.code == "not_authorized"
        return
    uid, groups, *environment = found.stdout.decode().splitlines()
    assert (int(uid), [int(group) for group in groups.split()]) == (NOBODY.pw_uid, [NOBODY.pw_gid])
    names = {line.partition("=")[0] for line in environment}
    assert {"HOME", "USER", "LOGNAME", "PATH", "A"} <= names
    assert "PYTHONPATH" not in names
    assert "USER=nobody" in environment


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Exec(argv=("no-such-program",)), "No such file"),
        (Exec(command="true", cwd="/no/such/folder"), "/no/such/folder"),
        (Exec(command="true", user="no-such-account"), "no account 'no-such-account'"),
        (Exec(argv=("/etc/passwd",)), "Permission denied"),
        (Exec(argv=("true", "x" * 200_000)), "Argument list too long"),
    ],
)
def test_what_cannot_be_started_says_why(agent: Agent, request_: Exec, words: str) -> None:
    last = agent.run(request_).last
    assert isinstance(last, NotStarted)
    assert words in last.m
    assert last.code == "os_error"


def test_a_stream_of_any_bytes_goes_through_unharmed(agent: Agent) -> None:
    data = random.Random(5).randbytes(3_000_000)
    frames = [Stdin(data[start : start + 70_000]) for start in range(0, len(data), 70_000)]
    found = agent.run(Exec(command="cat; echo end >&2"), *frames, EndOfInput())
    assert found == Outcome(data, b"end\n", Exit(0))


def test_input_that_a_command_does_not_want_is_dropped(agent: Agent) -> None:
    frames = [Stdin(bytes(65536))] * 40
    found = agent.run(Exec(command="head -c 4 >/dev/null; exec <&-; echo done"), *frames)
    assert found == Outcome(b"done\n", b"", Exit(0))


def test_the_exit_arrives_although_input_was_never_read(agent: Agent) -> None:
    for _ in range(20):
        assert agent.run(Exec(command="exit 5"), *[Stdin(bytes(65536))] * 3).last == Exit(5)


def test_a_signal_reaches_the_whole_group(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="sleep 1000 & echo $!; wait"))
        child = int(host.line())
        host.send(Signal(signal.SIGTERM))
        assert host.outcome().last == Exit(143)
    assert ended(child)


def test_a_background_child_holding_the_output_does_not_hold_the_exit(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="sleep 1000 & echo $!"))
        child = int(host.line())
        assert host.outcome() == Outcome(b"", b"", Exit(0, truncated=True))
    os.kill(child, 0)
    os.kill(child, signal.SIGKILL)


def test_a_background_child_that_goes_on_writing_does_not_hold_the_exit(agent: Agent) -> None:
    found = agent.run(Exec(command="yes & echo first; sleep 0.05"))
    assert found.stdout.count(b"first\n") == 1
    assert found.last == Exit(0, truncated=True)


def test_all_that_the_command_wrote_itself_comes_before_the_exit_however_slow_the_host(agent: Agent) -> None:
    with agent.host() as host:
        # The pipe is full when the shell exits, and the window shut for longer than the grace.
        host.start(Exec(command="head -c 60000 /dev/zero; sleep 1000 & echo $! >&2; exit 9", window=10))
        first = host.frame()
        assert isinstance(first, Stdout)
        with agent.host() as other:
            assert other.run(Exec(command="sleep 0.5")).last == Exit(0)
        host.send(Credit(1 << 20))
        rest = host.outcome()
    assert len(first.d) + len(rest.stdout) == 60000
    assert rest.last == Exit(9, truncated=True)
    os.kill(int(rest.stderr), signal.SIGKILL)


def test_no_more_is_in_flight_than_the_window(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="head -c 5000 /dev/zero", window=1000))
        sizes: list[int] = []
        while sum(sizes) < 5000:
            frame = host.frame()
            assert isinstance(frame, Stdout)
            sizes.append(len(frame.d))
            if sum(sizes) % 1000 == 0:
                with agent.host() as other:
                    other.ask(Ping())
                host.stream.setblocking(False)
                assert host.end.next() is None
                with pytest.raises(BlockingIOError):
                    host.stream.recv(1)
                host.stream.settimeout(PATIENCE)
                host.send(Credit(1000))
        assert host.outcome() == Outcome(b"", b"", Exit(0))


def test_two_outputs_share_a_window_and_neither_is_taken_for_ended(agent: Agent) -> None:
    with agent.host() as host:
        host.start(
            Exec(command="printf 12345; printf 12345 >&2; read line; printf 6; printf 6 >&2", window=5)
        )
        first = host.frame()
        host.send(Stdin(b"\n"), Credit(1 << 20))
        rest = host.outcome()
    assert isinstance(first, (Stdout, Stderr))
    assert {first.d + rest.stdout, first.d + rest.stderr} == {b"123456", b"12345123456"}
    assert rest.last == Exit(0)


def test_with_a_window_the_agent_gives_credit_for_input(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="cat >/dev/null", window=100), Stdin(b"12345"))
        assert host.frame() == Credit(5)
        host.send(EndOfInput())
        assert host.outcome().last == Exit(0)


def test_credit_is_gathered_while_the_host_does_not_read(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="cat >/dev/null", window=1 << 30))
        for _ in range(100):
            host.send(*[Stdin(b"x")] * 1000)
        host.send(EndOfInput())
        given = []
        while isinstance(frame := host.frame(), Credit):
            given.append(frame.n)
    assert frame == Exit(0)
    # Singly they would be more than the socket and the agent hold.
    assert (sum(given), len(given) < 50_000) == (100_000, True)


@pytest.mark.parametrize("stuffed", ["nothing", "input", "output"])
def test_the_group_is_killed_when_the_host_is_gone(agent: Agent, stuffed: str) -> None:
    with agent.host() as host:
        host.start(
            Exec(command="sleep 1000 & echo $! $$; [ $0 = x ] || " + {"output": "yes"}.get(stuffed, "wait"))
        )
        pids = [int(word) for word in host.line().split()[:2]]
        if stuffed == "input":
            host.stream.settimeout(0.2)
            with pytest.raises(TimeoutError):
                host.send(*[Stdin(bytes(65536))] * 100)
    assert all(ended(pid) for pid in pids)


def test_a_line_that_is_no_frame_ends_the_command_and_the_connection(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="echo $$; sleep 1000"))
        pid = int(host.line())
        host.stream.sendall(b"garbage\ngarbage\n")
        last = host.outcome().last
        assert isinstance(last, NotStarted)
        assert last.code == "bad_request"
        assert host.next() is None
    assert ended(pid)


def test_a_command_whose_time_is_over_is_ended(agent: Agent) -> None:
    found = agent.run(Exec(command="trap 'echo bye; exit 4' TERM; sleep 1000 & wait", timeout=0.2))
    assert found == Outcome(b"bye\n", b"", Exit(4, timeout=True))
    assert agent.run(Exec(command="exit 6", timeout=1000)).last == Exit(6)


@pytest.mark.full
def test_a_command_that_ignores_the_end_of_its_time_is_killed(agent: Agent) -> None:
    found = agent.run(Exec(argv=("sh", "-c", "trap '' TERM; while :; do sleep 1; done"), timeout=0.1))
    assert found.last == Exit(137, timeout=True)


def test_a_running_command_blocks_nobody(agent: Agent) -> None:
    with agent.host() as slow, agent.host() as other:
        slow.start(Exec(command="echo started; cat"))
        assert slow.line() == b"started"
        other.ask(Ping())
        assert agent.run(Exec(command="echo quick")).stdout == b"quick\n"
        slow.send(EndOfInput())
        assert slow.outcome().last == Exit(0)


def leaves_nothing(agent: Agent, commands: int) -> None:
    before = agent.idle()
    for number in range(commands):
        assert agent.run(Exec(argv=("sh", "-c", f"exit {number % 100}"))).last == Exit(number % 100)
    assert agent.idle() == before


def test_short_commands_leave_no_zombie_thread_or_descriptor(agent: Agent) -> None:
    leaves_nothing(agent, 100)


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_ten_thousand_short_commands_leave_no_zombie_thread_or_descriptor(agent: Agent) -> None:
    leaves_nothing(agent, 10_000)
