"""Which way into a guest a call takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.lent import content, cut, ran

from reflexarc.drivers.replay.driver import ReplayCapabilities, open_replay
from reflexarc.drivers.replay.script import Entry, Fault, Ran, ReplayGuest, ReplayScript
from reflexarc.errors import (
    CapabilityError,
    ConnectError,
    ConnectionLostError,
    MachineError,
    OperationRejectedError,
    PeerProtocolError,
)
from reflexarc.machine.capabilities import Capabilities, Command, Exited, KeyEvent, Output, PowerState, Stream
from reflexarc.machine.reach import Lent
from reflexarc.machine.routing import route

ECHO = Command(line="who")


@dataclass
class Reached:
    """A reach that says what it is told to; refreshed: how often it was told to look anew."""

    answers: bool = True
    asked: list[str] = field(default_factory=list)
    refreshed: int = 0

    async def ready(self, feature: str) -> bool:
        self.asked.append(feature)
        return self.answers

    def refresh(self) -> None:
        self.refreshed += 1


def inside(name: str, **faults: Fault) -> ReplayCapabilities:
    """What lies inside of a guest by one way, which tells its own name."""
    guest = ReplayGuest(commands={"who": Ran(name.encode())}, files={"/who": name.encode()})
    script = ReplayScript(
        guest=guest,
        power=PowerState.ON,
        faults={operation.replace("_", "."): (fault,) for operation, fault in faults.items()},
    )
    found = open_replay(script)
    found.play(Entry(frame=np.full((4, 4), len(name), np.uint32)))
    return found


def guest_only(lent: ReplayCapabilities, *, pixels: bool = False) -> Capabilities:
    """What an agent or SSH lends of it."""
    found = Capabilities(shell=lent.shell, files=lent.files)
    if not pixels:
        return found
    return replace(found, screen=lent.screen, keyboard=lent.keyboard, pointer=lent.pointer)


@dataclass
class Failing:
    """A shell, and files, that fail so; a shell after `before` pieces, files after having read so many."""

    error: MachineError
    before: int = 0
    calls: int = 0

    async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        self.calls += 1
        for _ in range(self.before):
            yield Output(Stream.STDOUT, b"x")
        raise self.error

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        self.calls += 1
        for _ in range(self.before):
            yield b"x"
        raise self.error

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        self.calls += 1
        for _ in range(self.before):
            await anext(pieces)
        raise self.error


def error(kind: type[MachineError]) -> MachineError:
    return kind("it failed", machine="m")


def two(first: Capabilities, reach: Reached | None = None) -> tuple[Capabilities, ReplayCapabilities]:
    """Two ways: that one, and then SSH."""
    ssh = inside("ssh")
    agent = Lent("agent", first, reach or Reached(), pixels_last=1)
    return route([agent, Lent("ssh", guest_only(ssh, pixels=True), pixels_last=2)]), ssh


@pytest.mark.parametrize(("answers", "who"), [(True, b"agent"), (False, b"ssh")])
def test_the_first_way_that_is_ready_is_taken(answers: bool, who: bytes) -> None:
    reach = Reached(answers)
    found, _ = two(guest_only(inside("agent")), reach)

    async def run() -> None:
        assert await ran(found.shell, ECHO) == (who, b"", 0)
        assert await content(found.files, "/who") == who

    asyncio.run(run())
    assert reach.asked == ["exec", "files"]


@pytest.mark.parametrize("kind", [ConnectError, CapabilityError])
def test_after_an_error_that_sent_nothing_the_next_way_is_taken(kind: type[MachineError]) -> None:
    failing = Failing(error(kind))
    found, _ = two(Capabilities(shell=failing, files=failing))

    async def run() -> None:
        assert (await ran(found.shell, ECHO))[0] == b"ssh"
        assert await content(found.files, "/who") == b"ssh"
        assert found.files is not None
        await found.files.write("/new", cut(b"data"), mode=0o600)
        assert await content(found.files, "/new") == b"data"

    asyncio.run(run())
    assert failing.calls == 4


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("kind", [ConnectionLostError, OperationRejectedError, PeerProtocolError])
def test_what_may_have_run_is_not_run_elsewhere(kind: type[MachineError], before: int) -> None:
    failing = Failing(error(kind), before)
    found, ssh = two(Capabilities(shell=failing, files=failing))

    async def run() -> None:
        with pytest.raises(kind):
            await ran(found.shell, ECHO)
        with pytest.raises(kind):
            await content(found.files, "/who")
        assert found.files is not None
        with pytest.raises(kind):
            await found.files.write("/new", cut(b"data"), mode=0o600)

    asyncio.run(run())
    assert (failing.calls, ssh.sent) == (3, [])


def test_what_one_way_had_in_part_is_not_given_to_the_next() -> None:
    failing = Failing(error(ConnectError), 1)
    found, ssh = two(Capabilities(shell=failing, files=failing))

    async def run() -> None:
        with pytest.raises(ConnectError):
            await ran(found.shell, ECHO)
        assert found.files is not None
        with pytest.raises(ConnectError):
            await found.files.write("/new", cut(b"data"), mode=0o600)

    asyncio.run(run())
    assert ssh.sent == []


def test_where_no_way_leads_in_all_are_named() -> None:
    first, second = (
        Failing(ConnectError("no agent", machine="m")),
        Failing(ConnectError("no sshd", machine="m")),
    )
    found = route(
        [Lent("agent", Capabilities(shell=first), Reached()), Lent("ssh", Capabilities(shell=second))]
    )

    async def run() -> None:
        with pytest.raises(ConnectError, match=r"no sshd.*no agent"):
            await ran(found.shell, ECHO)

    asyncio.run(run())


def test_closing_early_closes_the_command() -> None:
    closed: list[bool] = []

    class Endless:
        async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
            try:
                while True:
                    yield Output(Stream.STDOUT, b"x")
            finally:
                closed.append(True)

    found, _ = two(Capabilities(shell=Endless()))

    async def run() -> None:
        assert found.shell is not None
        async with aclosing(found.shell.run(ECHO)) as pieces:
            await anext(pieces)
        assert closed == [True]

    asyncio.run(run())


def test_a_devices_own_screen_and_keys_come_first_whatever_the_order() -> None:
    agent, qemu = inside("agent"), inside("qemu-device")
    device = Capabilities(power=qemu.power, screen=qemu.screen, keyboard=qemu.keyboard, pointer=qemu.pointer)
    found = route(
        [Lent("agent", guest_only(agent, pixels=True), Reached(), pixels_last=1), Lent("qemu", device)]
    )
    assert found.screen is qemu.screen
    assert found.keyboard is qemu.keyboard
    assert found.pointer is qemu.pointer
    assert found.shell is agent.shell


def test_a_picture_that_fails_is_taken_elsewhere_and_keys_are_not() -> None:
    lost = {"screen_screenshot": Fault.LOSE_AFTER, "keyboard_send": Fault.LOSE_AFTER}
    found, ssh = two(guest_only(inside("agent", **lost), pixels=True))

    async def run() -> None:
        assert found.screen is not None
        assert found.keyboard is not None
        first, second = await found.screen.screenshot(), await found.screen.screenshot()
        assert (first.pixels[0, 0], second.pixels[0, 0]) == (len("ssh"), len("agent"))
        assert second.number > first.number
        with pytest.raises(ConnectionLostError):
            await found.keyboard.send([KeyEvent("a", True)])
        await found.keyboard.send([KeyEvent("a", False)])

    asyncio.run(run())
    assert ssh.sent == []


def test_while_no_way_shows_anything_there_is_no_signal() -> None:
    agent, reach = inside("agent"), Reached(False)

    class Dark:
        async def screenshot(self) -> None:
            raise error(ConnectError)

        async def frames(self) -> AsyncGenerator[object, None]:
            for frame in list[object]():
                yield frame
            raise error(ConnectError)

        def source(self) -> str:
            return "dark"

    found = route([Lent("agent", Capabilities(screen=Dark(), shell=agent.shell), reach)])  # type: ignore[arg-type]

    async def run() -> None:
        assert found.screen is not None
        async with aclosing(found.screen.frames()) as frames:  # type: ignore[type-var]
            assert not (await anext(frames)).signal
        with pytest.raises(ConnectError):
            await found.screen.screenshot()

    asyncio.run(run())


def test_switching_the_machine_has_the_ways_looked_at_anew() -> None:
    reach, device = Reached(), inside("qemu")
    power = Capabilities(power=device.power)
    found = route([Lent("qemu", power), Lent("agent", guest_only(inside("agent")), reach)])

    async def run() -> None:
        assert found.power is not None
        for number, act in enumerate((found.power.reset, found.power.cycle, found.power.off, found.power.on)):
            assert reach.refreshed == number
            await act()
        await found.power.shutdown(1.0)
        assert await found.power.state() is PowerState.OFF

    asyncio.run(run())
    assert reach.refreshed == 5


def test_a_machine_without_ways_into_its_guest_is_as_its_drivers_lend_it() -> None:
    device = inside("qemu")
    found = route([Lent("replay", device)])
    assert all(getattr(found, name) is getattr(device, name) for name in device.names())
    assert found.names() == device.names()
