from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from reflexarc.drivers.replay.config import ReplayConfig
from reflexarc.drivers.replay.driver import ReplayCapabilities, open_driver, open_replay
from reflexarc.drivers.replay.recorder import Recorder
from reflexarc.drivers.replay.recording import load
from reflexarc.drivers.replay.script import Entry, Fault, Reaction, ReplayScript
from reflexarc.errors import (
    ConfigError,
    ConnectionLostError,
    MachineError,
    OperationRejectedError,
    OperationTimeoutError,
    PeerProtocolError,
)
from reflexarc.machine.capabilities import KeyEvent, PowerState, Screen
from reflexarc.machine.frame import Frame, Pixels


def plain(value: int, width: int = 8, height: int = 4) -> Pixels:
    return np.full((height, width), value, np.uint32)


async def values(machine: ReplayCapabilities, count: int) -> list[int]:
    """The first pixel of the next frames."""
    assert machine.screen is not None
    seen = []
    async for frame in machine.screen.frames():
        seen.append(int(frame.pixels[0, 0]))
        if len(seen) == count:
            break
    return seen


async def press(machine: ReplayCapabilities, key: str) -> None:
    assert machine.keyboard is not None
    await machine.keyboard.send([KeyEvent(key, True), KeyEvent(key, False)])


def test_at_speed_zero_each_wait_plays_the_next_entry() -> None:
    machine = open_replay(ReplayScript(tuple(Entry(at=n * 1000, frame=plain(n)) for n in (1, 2, 3))))
    assert asyncio.run(values(machine, 3)) == [1, 2, 3]


def test_a_frame_equal_to_the_present_one_is_no_change() -> None:
    machine = open_replay(ReplayScript((Entry(frame=plain(1)), Entry(frame=plain(1)), Entry(frame=plain(2)))))
    assert asyncio.run(values(machine, 2)) == [1, 2]


def test_at_a_speed_entries_are_played_when_their_time_has_come() -> None:
    entries = (Entry(0.0, plain(1)), Entry(50.0, plain(2)), Entry(1e9, plain(3)))
    machine = open_replay(ReplayScript(entries, speed=1000.0))

    async def run() -> tuple[list[int], int]:
        assert machine.screen is not None
        seen = await values(machine, 2)
        return seen, int((await machine.screen.screenshot()).pixels[0, 0])

    assert asyncio.run(run()) == ([1, 2], 2)


def test_reactions_follow_their_input_in_turn_and_everything_sent_is_noted() -> None:
    script = ReplayScript(
        (Entry(frame=plain(1)),),
        (
            Reaction((Entry(frame=plain(2)),), key="enter"),
            Reaction((Entry(frame=plain(3)),), key="enter"),
            Reaction((Entry(serial="ok"),), operation="console.write", repeat=True),
        ),
    )
    machine = open_replay(script)

    async def run() -> tuple[list[int], str]:
        assert machine.console is not None
        seen = await values(machine, 1)
        for _ in range(2):
            await press(machine, "enter")
            seen += await values(machine, 1)
        await machine.console.write("a")
        await machine.console.write("b")
        return seen, await machine.console.read()

    assert asyncio.run(run()) == ([1, 2, 3], "okok")
    assert [(sent.operation, sent.detail) for sent in machine.sent] == [
        *[("key.down", "enter"), ("key.up", "enter")] * 2,
        ("console.write", "a"),
        ("console.write", "b"),
    ]
    assert [sent.at for sent in machine.sent] == sorted(sent.at for sent in machine.sent)


@pytest.mark.parametrize(
    ("fault", "error", "after"),
    [
        (Fault.REJECT, OperationRejectedError, PowerState.ON),
        (Fault.HANG, OperationTimeoutError, PowerState.ON),
        (Fault.LOSE_BEFORE, ConnectionLostError, PowerState.ON),
        (Fault.LOSE_AFTER, ConnectionLostError, PowerState.OFF),
    ],
)
@pytest.mark.parametrize("operation", ["off", "shutdown"])
def test_a_scripted_fault_fails_one_call(
    operation: str, fault: Fault, error: type[MachineError], after: PowerState
) -> None:
    power = open_replay(ReplayScript(faults={f"power.{operation}": (fault,)})).power
    assert power is not None

    async def act() -> None:
        await (power.off() if operation == "off" else power.shutdown(0.01))

    async def run() -> list[PowerState]:
        with pytest.raises(error) as caught:
            await act()
        assert caught.value.operation == f"power.{operation}"
        states = [await power.state()]
        await act()
        return [*states, await power.state()]

    assert asyncio.run(run()) == [after, PowerState.OFF]


def test_a_scripted_shutdown_takes_its_time() -> None:
    off = Reaction((Entry(serial="bye"), Entry(at=5.0, power=PowerState.OFF)), operation="power.shutdown")
    machine = open_replay(ReplayScript(reactions=(off,), speed=100.0))

    async def run() -> tuple[PowerState, str]:
        assert machine.power is not None
        assert machine.console is not None
        with pytest.raises(OperationTimeoutError):
            await machine.power.shutdown(0.001)
        await machine.power.shutdown(10)
        return await machine.power.state(), await machine.console.read()

    assert asyncio.run(run()) == (PowerState.OFF, "bye")


def test_a_test_may_let_things_happen() -> None:
    machine = open_replay(ReplayScript())

    async def run() -> Frame:
        assert machine.screen is not None
        frames = machine.screen.frames()
        waiting = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
        machine.play(Entry(frame=plain(6), signal=False))
        return await waiting

    frame = asyncio.run(run())
    assert int(frame.pixels[0, 0]) == 6
    assert not frame.signal


class Ending:
    """A screen whose device goes away after so many frames, without a word."""

    def __init__(self, screen: Screen, count: int) -> None:
        self._screen = screen
        self._count = count

    async def screenshot(self) -> Frame:
        return await self._screen.screenshot()

    async def frames(self) -> AsyncIterator[Frame]:
        async for frame in self._screen.frames():
            yield frame
            self._count -= 1
            if not self._count:
                return

    def source(self) -> str:
        return self._screen.source()


def test_what_a_recorder_writes_can_be_replayed(tmp_path: Path) -> None:
    script = ReplayScript(
        (
            *(Entry(frame=plain(value)) for value in (1, 2, 1)),
            Entry(frame=plain(3), serial="hello\r\n"),
        )
    )

    async def record() -> str:
        machine = open_replay(script)
        assert machine.screen is not None
        assert machine.console is not None
        recorder = Recorder(tmp_path / "recording")
        console = recorder.console(machine.console)
        await recorder.record(Ending(machine.screen, 4))
        return await console.read()

    async def replay() -> tuple[list[int], str]:
        config = ReplayConfig(tmp_path / "recording", speed=0.0)
        async with open_driver(config, machine="played", state_dir=tmp_path) as machine:
            assert machine.console is not None
            return await values(machine, 4), await machine.console.read()

    assert asyncio.run(record()) == "hello\r\n"
    assert asyncio.run(replay()) == ([1, 2, 1, 3], "hello\r\n")
    assert sorted(path.name for path in (tmp_path / "recording").glob("*.png")) == [
        "000001.png", "000002.png", "000003.png",
    ]  # fmt: skip


def test_a_recorder_stops_at_its_bound(tmp_path: Path) -> None:
    machine = open_replay(ReplayScript(tuple(Entry(frame=plain(n)) for n in range(100))))
    assert machine.screen is not None
    recorder = Recorder(tmp_path, max_bytes=1000)
    asyncio.run(asyncio.wait_for(recorder.record(machine.screen), 30))
    assert recorder.full
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000


def recording(folder: Path, *lines: object) -> ReplayConfig:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / "recording.jsonl").write_text(text)
    return ReplayConfig(folder, speed=0.0)


def test_a_recording_may_react(tmp_path: Path) -> None:
    config = recording(
        tmp_path,
        {"at": 0, "power": "off"},
        {"on": {"operation": "power.on"}, "then": [{"at": 0, "serial": "a"}, {"at": 1, "serial": "b"}]},
        {"on": {"key": "RETURN"}, "serial": "c", "repeat": True},
    )
    script = load(config)
    assert script.entries[0].power is PowerState.OFF
    assert [entry.serial for entry in script.reactions[0].entries] == ["a", "b"]
    assert (script.reactions[1].key, script.reactions[1].repeat) == ("enter", True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ({"at": -1}, "`at` must be seconds"),
        ({"at": True}, "`at` must be seconds"),
        ({"frame": "../0001.png"}, "in the recording's folder"),
        ({"frame": "0001.png"}, "there is no frame '0001.png'"),
        ({"frame": 1}, "`frame` must be a text"),
        ({"power": "maybe"}, "'maybe'"),
        ({"signal": 1}, "`signal` must be true or false"),
        ({"sound": "x"}, "unknown: sound"),
        ({"on": "enter"}, "`on` must be"),
        ({"on": {"key": "entr"}}, "no key 'entr'; did you mean"),
        ({"on": {"key": "a"}, "then": 1}, "`then` must be a list"),
        ({"on": {"key": "a"}, "then": [{}], "serial": "x"}, "`then` must be a list"),
        ({"on": {"key": "a"}, "repeat": 1}, "`repeat` true or false"),
    ],
)
def test_a_mistake_in_a_recording_is_named_with_its_line(line: object, words: str, tmp_path: Path) -> None:
    config = recording(tmp_path, {"serial": "fine"}, line)
    with pytest.raises(ConfigError) as caught:
        load(config)
    assert words in str(caught.value)
    assert (caught.value.path, caught.value.line) == (tmp_path / "recording.jsonl", 2)


def test_a_broken_picture_is_an_error_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"no picture")
    machine = open_replay(load(recording(tmp_path, {"frame": "1.png"})))
    with pytest.raises(PeerProtocolError, match="can't be read"):
        asyncio.run(values(machine, 1))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "replay.recording: must be the path"),
        ({"recording": "nowhere"}, "there is no recording.jsonl"),
        ({"recording": ".", "speed": "fast"}, "replay.speed: must be a number"),
        ({"recording": ".", "speed": -1}, "from 0 to 1000"),
        ({"recording": ".", "sped": 1}, "did you mean 'speed'"),
    ],
)
def test_a_mistake_in_the_table_says_what_to_do(table: dict[str, object], words: str, tmp_path: Path) -> None:
    recording(tmp_path)
    with pytest.raises(ConfigError, match="machine 'lab1', ") as caught:
        ReplayConfig.parse(table, machine="lab1", folder=tmp_path)
    assert words in str(caught.value)


def test_a_table_is_read(tmp_path: Path) -> None:
    recording(tmp_path)
    config = ReplayConfig.parse({"recording": ".", "speed": 2}, machine="lab1", folder=tmp_path)
    assert config == ReplayConfig(tmp_path, 2.0)
