"""The agent inside a real Linux: virtio-serial, and who is turned away on vsock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.agent_guest import Guest, booted
from tests.agents import Host, Outcome
from tests.serial import Line

from reflexarc_wire.frames import Exit
from reflexarc_wire.replies import PingReply, ReadFileReply, WriteFileReply
from reflexarc_wire.requests import Exec, Ping, ReadFile, WriteFile

pytestmark = pytest.mark.guest
WINDOW = 1 << 18

# What a process in the guest gets of the agent: by Python's own support, and by ctypes.
STRANGER = """
import sys
sys.path.insert(0, "/reflexarc-agent.pyz")
from reflexarc_agent.transports.vsock import connect
for native in (True, False):
    with connect(1, 2035, 5.0, native=native) as stream:
        stream.settimeout(5.0)
        try:
            stream.send(b'{"op":"ping"}\\n')
            print(stream.recv(100))
        except (BrokenPipeError, ConnectionResetError):
            print(b"")
"""

# A listener by ctypes sees whence a process comes; what it would do with a host is done to it here.
LISTENER = """
import sys, threading
sys.path.insert(0, "/reflexarc-agent.pyz")
from reflexarc_agent.transports import vsock
from reflexarc_agent.stopping import Stop
from reflexarc_agent.transports.listening import Listening
vsock.CID_HOST = int(sys.argv[1])
stop, listener = Stop(), vsock.VsockListener(3000, native=False)
def serve(channel, token):
    channel.send(memoryview(b"served"))
    channel.close()
thread = threading.Thread(target=Listening(listener).run, args=(serve, stop))
thread.start()
with vsock.connect(1, 3000, 5.0, native=False) as stream:
    stream.settimeout(5.0)
    try:
        print(stream.recv(100).decode())
    except ConnectionResetError:
        print()
stop.set()
thread.join()
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    with booted(tmp_path_factory.mktemp("guest")) as guest:
        yield guest


@pytest.fixture
def line(guest: Guest, request: pytest.FixtureRequest) -> Iterator[Line]:
    with guest.line("reflexarc", request.node.name) as line:
        yield line


def python(host: Host, script: str, *arguments: str) -> Outcome:
    return host.run(Exec(argv=("/usr/bin/python3", "-I", "-c", script, *arguments), window=WINDOW))


def test_commands_and_files_go_through_a_port(line: Line) -> None:
    command, files = line.host(), line.host()
    found = command.run(Exec(command="uname -s; echo bad >&2; exit 4", window=WINDOW))
    assert found == Outcome(b"Linux\n", b"bad\n", Exit(4))
    assert isinstance(files.ask(WriteFile("/tmp/f", b"hi", 0, 2)), WriteFileReply)
    reply = files.ask(ReadFile("/tmp/f"))
    assert isinstance(reply, ReadFileReply)
    assert reply.data == b"hi"


def test_a_host_that_dies_amid_a_line_takes_its_commands_along_and_leaves_nothing(guest: Guest) -> None:
    with guest.line("reflexarc", "dying") as line:
        host = line.host()
        host.start(Exec(command="echo $$; exec sleep 1000", window=WINDOW))
        child = int(host.line())
        line.host().start(Exec(command="yes", window=WINDOW))
        line.out += b'{"id":77,"op":"exec","argv":["touch","/tmp/no'
        line.pump()
    with guest.line("reflexarc", "next") as line:
        asking = line.host()
        assert isinstance(asking.ask(Ping()), PingReply)
        gone = f"while [ -e /proc/{child} ]; do :; done; ls /tmp/no"
        assert line.host().run(Exec(command=gone, window=WINDOW)).last == Exit(1)
        assert not line.heard[1]


def test_a_port_without_a_host_costs_next_to_nothing(guest: Guest) -> None:
    with guest.line("second", "watching") as line:
        measured = "agent() { cut -d' ' -f14,15 /proc/1/stat; }; agent; sleep 3; agent"
        found = line.host().run(Exec(command=measured, window=WINDOW)).stdout.split()
    before, after = sum(map(int, found[:2])), sum(map(int, found[2:]))
    # Ticks are hundredths of a second; polling without a pause would take nearly all of the 300.
    assert after - before < 60


def test_on_vsock_only_the_host_is_served(line: Line) -> None:
    assert python(line.host(), STRANGER) == Outcome(b"b''\nb''\n", b"", Exit(0))


@pytest.mark.parametrize(("host", "served"), [("2", b"\n"), ("1", b"served\n")])
def test_a_python_without_vsock_tells_the_host_from_others_too(line: Line, host: str, served: bytes) -> None:
    assert python(line.host(), LISTENER, host) == Outcome(served, b"", Exit(0))
