"""The desktop of a guest over SSH: a real X server, seen and driven by the programs beside it."""

from __future__ import annotations

import asyncio
import os
import re
import select
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from itertools import cycle
from pathlib import Path

import pytest
from guests.desktop.session import DesktopSession
from tests.sshd import Server

from reflexarc.drivers.ssh.driver import open_driver
from reflexarc.errors import CapabilityError, ConnectError, OperationRejectedError
from reflexarc.machine.capabilities import Button, Capabilities, Keyboard, KeyEvent, Pointer, Screen

PATIENCE = 30.0
_EVENT = re.compile(r"\(Raw((?:Key|Button)\w+)\)\n +device: .*\n +detail: (\d+)\n")


def on_desktop(
    server: Server, state_dir: Path, display: str, act: Callable[[Capabilities], Coroutine[None, None, None]]
) -> None:
    async def run() -> None:
        config = server.config(pixels=True, display=display)
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            await act(lent)

    asyncio.run(run())


def screen_of(lent: Capabilities) -> Screen:
    assert lent.screen is not None
    return lent.screen


def keyboard_of(lent: Capabilities) -> Keyboard:
    assert lent.keyboard is not None
    return lent.keyboard


def pointer_of(lent: Capabilities) -> Pointer:
    assert lent.pointer is not None
    return lent.pointer


@contextmanager
def watched(desktop: DesktopSession) -> Iterator[Callable[[int], list[str]]]:
    """What the X server's devices do from now on; the function waits for so many keys and buttons."""
    process = subprocess.Popen(
        ["xinput", "test-xi2", "--root"],
        env=desktop.environ,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    stream, heard = process.stdout, bytearray()

    def events(count: int) -> list[str]:
        while len(found := _EVENT.findall(heard.decode())) < count:
            assert select.select([stream], [], [], PATIENCE)[0], heard.decode()
            heard.extend(os.read(stream.fileno(), 4096))
        return [f"{kind} {detail}" for kind, detail in found]

    try:
        for place in cycle("12"):
            desktop_runs(desktop, "xdotool", "mousemove", place, place)
            if select.select([stream], [], [], 0.1)[0]:
                break
        yield events
    finally:
        process.kill()
        process.wait()
        stream.close()


def desktop_runs(desktop: DesktopSession, *command: str) -> str:
    """Run a program beside the X server, and return what it says."""
    done = subprocess.run(command, env=desktop.environ, check=True, timeout=PATIENCE, stdout=subprocess.PIPE)
    return done.stdout.decode()


def test_nothing_of_a_desktop_is_lent_unasked(sshd: Server, ssh_state: Path) -> None:
    async def names() -> tuple[str, ...]:
        async with open_driver(sshd.config(), machine="guest", state_dir=ssh_state) as lent:
            return lent.names()

    assert asyncio.run(names()) == ("shell", "files")


def test_the_picture_is_the_screens(sshd: Server, ssh_state: Path, desktop: DesktopSession) -> None:
    async def act(lent: Capabilities) -> None:
        one, two = await screen_of(lent).screenshot(), await screen_of(lent).screenshot()
        assert (one.width, one.height) == (1280, 1024)
        assert two.number > one.number
        assert two.captured > one.captured

    on_desktop(sshd, ssh_state, desktop.environ["DISPLAY"], act)


def test_a_frame_comes_when_the_picture_changes(
    sshd: Server, ssh_state: Path, desktop: DesktopSession
) -> None:
    async def act(lent: Capabilities) -> None:
        async with asyncio.timeout(PATIENCE), aclosing(screen_of(lent).frames()) as frames:  # type: ignore[type-var]
            await anext(frames)
            for colour in (0x123456, 0xABCDEF):
                desktop_runs(desktop, "xsetroot", "-solid", f"#{colour:06x}")
                while int((await anext(frames)).pixels[2, 2]) != colour:
                    pass

    on_desktop(sshd, ssh_state, desktop.environ["DISPLAY"], act)


def test_keys_are_moved_by_their_place(sshd: Server, ssh_state: Path, desktop: DesktopSession) -> None:
    async def act(lent: Capabilities) -> None:
        with watched(desktop) as events:
            await keyboard_of(lent).send([KeyEvent("shift", True), KeyEvent("esc", True)])
            await keyboard_of(lent).send([KeyEvent("esc", False), KeyEvent("shift", False)])
            assert events(4) == ["KeyPress 50", "KeyPress 9", "KeyRelease 9", "KeyRelease 50"]

    on_desktop(sshd, ssh_state, desktop.environ["DISPLAY"], act)


def test_the_pointer_goes_where_it_is_told(sshd: Server, ssh_state: Path, desktop: DesktopSession) -> None:
    async def act(lent: Capabilities) -> None:
        pointer = pointer_of(lent)
        with watched(desktop) as events:
            await pointer.move(1279, 1023)
            await pointer.button(Button.RIGHT, True)
            await pointer.button(Button.RIGHT, False)
            await pointer.scroll(-1, 2)
            turned = [f"Button{half} {number}" for number in (5, 5, 6) for half in ("Press", "Release")]
            assert events(8) == ["ButtonPress 3", "ButtonRelease 3", *turned]
        assert desktop_runs(desktop, "xdotool", "getmouselocation").startswith("x:1279 y:1023 ")
        with pytest.raises(OperationRejectedError, match=r"\(1280, 0\) is not on its screen"):
            await pointer.move(1280, 0)
        with pytest.raises(CapabilityError, match="at most 100 lines"):
            await pointer.scroll(0, 1000)

    on_desktop(sshd, ssh_state, desktop.environ["DISPLAY"], act)


def test_a_desktop_that_is_not_there_is_told(sshd: Server, ssh_state: Path) -> None:
    async def act(lent: Capabilities) -> None:
        with pytest.raises(ConnectError, match="is anybody logged in there"):
            await screen_of(lent).screenshot()

    on_desktop(sshd, ssh_state, "wayland-reflexarc-none", act)


def test_an_x_server_that_is_not_there_is_told(sshd: Server, ssh_state: Path) -> None:
    async def act(lent: Capabilities) -> None:
        with pytest.raises(OperationRejectedError, match="can't be reached over SSH"):
            await screen_of(lent).screenshot()

    on_desktop(sshd, ssh_state, ":59999", act)
