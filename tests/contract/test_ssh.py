"""What only the SSH driver has to keep to: connecting, being refused, losing the connection."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.agents import ended
from tests.sshd import Server, inside, masters, serving

from reflexarc.errors import ConnectError, ConnectionLostError, OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import Command, Exited, Output, Shell

HOST = """
import asyncio, sys
from pathlib import Path
from reflexarc.drivers.ssh.config import SshConfig
from reflexarc.drivers.ssh.driver import open_driver
from reflexarc.machine.capabilities import Command

async def main():
    config = SshConfig.parse({table!r}, machine="guest", folder=Path("/"))
    async with open_driver(config, machine="guest", state_dir=Path({state!r})) as lent:
        async for piece in lent.shell.run(Command(line="sleep 1000 & echo $!; wait")):
            print(piece.data.decode(), end="", flush=True)

asyncio.run(main())
"""


def output_of(shell: Shell, command: Command) -> tuple[bytes, int]:
    async def run() -> tuple[bytes, int]:
        said = b""
        async with aclosing(shell.run(command)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Exited):
                    return said, piece.status
                said += piece.data
        raise AssertionError("no exit")

    return asyncio.run(run())


async def first(shell: Shell, line: str) -> str:
    """The first line of a command's output; the command is closed then."""
    async with aclosing(shell.run(Command(line=line))) as pieces:
        piece = await anext(pieces)
        assert isinstance(piece, Output)
        return piece.data.decode()


def refused(shell: Shell, error: type[Exception], command: Command | None = None) -> str:
    with pytest.raises(error) as raised:
        output_of(shell, command or Command(line="true"))
    return str(raised.value)


def test_a_guest_that_is_down_fails_its_calls_only(sshd: Server, own_state: Path) -> None:
    shell, _ = inside(sshd, own_state, port=9)
    told = refused(shell, ConnectError)
    assert "127.0.0.1 port 9" in told
    assert "is its SSH server running" in told


def test_an_unknown_host_key_is_refused(sshd: Server, own_state: Path, tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    shell, _ = inside(sshd, own_state, known_hosts=str(tmp_path / "none"))
    assert "accept it once" in refused(shell, ConnectError)
    assert (tmp_path / "none").read_bytes() == b""


def test_a_key_that_is_not_taken_is_no_prompt(sshd: Server, own_state: Path, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "id")], check=True)
    shell, _ = inside(sshd, own_state, identity_file=str(tmp_path / "id"))
    assert "no password is ever asked for" in refused(shell, ConnectError)


def test_one_connection_serves_all(sshd: Server, own_state: Path) -> None:
    shell, _ = inside(sshd, own_state)
    line = Command(line="echo $SSH_CONNECTION")
    assert output_of(shell, line) == output_of(inside(sshd, own_state)[0], line)
    assert len(masters(own_state)) == 1
    assert own_state.joinpath("ssh").stat().st_mode & 0o077 == 0


def test_a_connection_that_is_gone_is_made_anew(tmp_path: Path, own_state: Path) -> None:
    with serving(tmp_path) as server:
        shell, _ = inside(server, own_state)
        assert output_of(shell, Command(line="echo 1")) == (b"1\n", 0)
        server.stop()
        refused(shell, ConnectError)
        server.start()
        assert output_of(shell, Command(line="echo 2")) == (b"2\n", 0)


@pytest.mark.full
def test_a_connection_that_hangs_is_made_anew(tmp_path: Path, own_state: Path) -> None:
    with serving(tmp_path) as server:
        shell, _ = inside(server, own_state)
        assert output_of(shell, Command(line="echo 1")) == (b"1\n", 0)
        server.suspend()
        assert output_of(shell, Command(line="echo 2")) == (b"2\n", 0)


def test_more_commands_than_a_connection_takes_are_served(sshd: Server, own_state: Path) -> None:
    shell, _ = inside(sshd, own_state)
    at_once = 15  # an OpenSSH server takes ten to a connection, unless it is told otherwise

    async def run() -> list[str]:
        return await asyncio.gather(
            *(first(shell, f"echo {number}; sleep 1000") for number in range(at_once))
        )

    assert asyncio.run(run()) == [f"{number}\n" for number in range(at_once)]


def test_a_connection_lost_in_a_command_leaves_it_in_doubt(tmp_path: Path, own_state: Path) -> None:
    with serving(tmp_path) as server:
        shell, _ = inside(server, own_state)

        async def run() -> None:
            async with aclosing(shell.run(Command(line="echo on; sleep 1000"))) as pieces:
                await anext(pieces)
                server.stop()
                await anext(pieces)

        with pytest.raises(ConnectionLostError, match="look what became of it"):
            asyncio.run(run())


def test_a_status_that_ssh_has_too_is_the_commands(sshd: Server, ssh_state: Path) -> None:
    assert output_of(inside(sshd, ssh_state)[0], Command(line="exit 255")) == (b"", 255)


def test_a_signals_status_is_128_and_its_number(sshd: Server, ssh_state: Path) -> None:
    assert output_of(inside(sshd, ssh_state)[0], Command(line="kill -KILL $$")) == (b"", 128 + 9)


def test_a_child_in_the_background_delays_nothing_and_lives_on(sshd: Server, ssh_state: Path) -> None:
    said, status = output_of(inside(sshd, ssh_state)[0], Command(line="sleep 1000 & echo $!"))
    assert status == 0
    os.kill(int(said), signal.SIGKILL)
    assert ended(int(said))


def test_closing_ends_the_whole_group(sshd: Server, ssh_state: Path) -> None:
    child = asyncio.run(first(inside(sshd, ssh_state)[0], "sleep 1000 & echo $!; wait"))
    assert ended(int(child))


def test_the_end_of_the_host_ends_the_whole_group(sshd: Server, ssh_state: Path) -> None:
    code = HOST.format(table=sshd.table(), state=str(ssh_state))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        child = int(host.stdout.readline())
        host.kill()
    assert ended(child)


def test_a_slow_reader_holds_the_command_up(sshd: Server, ssh_state: Path, tmp_path: Path) -> None:
    shell, _ = inside(sshd, ssh_state)
    written = tmp_path / "written"

    async def run() -> None:
        line = f"head -c 64000000 /dev/zero; touch {written}"
        async with aclosing(shell.run(Command(line=line))) as pieces:
            await anext(pieces)
            assert "again" in await first(shell, "echo again")
            assert not written.exists()
            assert sum([len(piece.data) async for piece in pieces if isinstance(piece, Output)]) > 60_000_000
        assert written.exists()

    asyncio.run(run())


@pytest.mark.parametrize("line", ["sleep 1000", "trap '' TERM; while :; do sleep 1000; done"])
def test_a_command_is_ended_when_its_time_is_over(sshd: Server, ssh_state: Path, line: str) -> None:
    shell, _ = inside(sshd, ssh_state)
    assert "did not end within 0.1 s" in refused(
        shell, OperationTimeoutError, Command(line=line, timeout=0.1)
    )


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (Command(argv=("nosuchprogram",)), "there is no program nosuchprogram"),
        (Command(argv=("/etc/passwd",)), "there is no program /etc/passwd"),
        (Command(line="true", cwd="/nosuch"), "there is no folder /nosuch"),
        (Command(line="true", env={"a-b": "c"}), "not 'a-b'"),
        (Command(line="a\0b"), "no NUL"),
        (Command(), "there is no command"),
    ],
)
def test_what_cannot_be_started_is_told(sshd: Server, ssh_state: Path, command: Command, told: str) -> None:
    assert told in refused(inside(sshd, ssh_state)[0], OperationRejectedError, command)


def test_a_shell_that_greets_disturbs_nothing(tmp_path: Path, own_state: Path) -> None:
    with serving(tmp_path) as server:
        (server.home / ".bashrc").write_text("echo Welcome; echo Beware >&2\n")
        shell, _ = inside(server, own_state)
        assert output_of(shell, Command(argv=("echo", "a"))) == (b"a\n", 0)


def test_an_account_without_a_shell_is_told(tmp_path: Path, own_state: Path) -> None:
    with serving(tmp_path, "ForceCommand echo This account is closed; exit 1") as server:
        shell, _ = inside(server, own_state)
        told = refused(shell, OperationRejectedError)
        assert "runs no POSIX shell" in told
