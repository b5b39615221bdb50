"""Chords that switch the power, however the keys of them come to be down; serial sequences that do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc.drivers.replay.driver import ReplayCapabilities, open_replay
from reflexarc.drivers.replay.script import ReplayScript
from reflexarc.errors import ConfigError, SafetyError
from reflexarc.machine.capabilities import KeyEvent
from reflexarc.machine.chords import Board, Kept, KeysDown
from reflexarc.machine.guard import Guard
from reflexarc.machine.keys import KEYS
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy, chord_operation


class Desk:
    """A played machine that several programs drive, each with a guard of its own that grants `granted`."""

    def __init__(self, folder: Path, *granted: str, layout: str = "us") -> None:
        self.lent: ReplayCapabilities = open_replay(ReplayScript(), machine="lab")
        self._folder = folder
        self._granted = granted
        self._layout = layout

    def program(self) -> Machine:
        return Machine(
            "lab",
            self.lent,
            Guard("lab", Policy(), granted=self._granted),
            layout=self._layout,
            keys_down=KeysDown(self._folder / "keys-down"),
            escape=Kept(self._folder / "console-escape"),
        )

    def down(self) -> list[set[str]]:
        """The keys that were down on the machine after each event."""
        held: set[str] = set()
        states = []
        for sent in self.lent.sent:
            if sent.operation in ("key.down", "key.up"):
                (held.add if sent.operation == "key.down" else held.discard)(str(sent.detail))
                states.append(set(held))
        return states

    def refused(self, *acts: Callable[[Machine, Machine], Awaitable[None]]) -> str:
        """Do the acts in turn on two programs and return the operation that the last one is refused as."""

        async def run() -> str:
            first, second = self.program(), self.program()
            for act in acts[:-1]:
                await act(first, second)
            sent = len(self.lent.sent)
            with pytest.raises(SafetyError) as caught:
                await acts[-1](first, second)
            assert len(self.lent.sent) == sent
            return caught.value.operation

        return asyncio.run(run())


@pytest.mark.parametrize("order", list(permutations(("ctrl", "alt", "delete"))))
def test_ctrl_alt_delete_by_three_calls(tmp_path: Path, order: Sequence[str]) -> None:
    one, two, three = order
    refused = Desk(tmp_path).refused(
        lambda first, _: first.keyboard.down(one),
        lambda first, _: first.keyboard.down(two),
        lambda first, _: first.keyboard.down(three),
    )
    assert refused == "power.reset"


@pytest.mark.parametrize("ctrl", ["ctrl", "ctrl_r", "Control"])
@pytest.mark.parametrize("alt", ["alt", "alt_r", "altgr", "option"])
@pytest.mark.parametrize("delete", ["delete", "Del", "kp_dot", "kp-dot"])
def test_either_side_and_the_keypad(tmp_path: Path, ctrl: str, alt: str, delete: str) -> None:
    desk = Desk(tmp_path)
    assert desk.refused(lambda first, _: first.keyboard.press(f"{ctrl}+{alt}+{delete}")) == "power.reset"
    held = Desk(tmp_path / "held")
    (tmp_path / "held").mkdir()
    refused = held.refused(
        lambda first, _: first.keyboard.down(alt),
        lambda first, _: first.keyboard.press("a"),
        lambda first, _: first.keyboard.press(f"{ctrl}+{delete}"),
    )
    assert refused == "power.reset"


@pytest.mark.parametrize(
    ("letter", "operation"), [("b", "power.reset"), ("c", "power.reset"), ("o", "power.off")]
)
@pytest.mark.parametrize("sysrq", ["print", "sysrq"])
def test_a_typed_letter_under_magic_sysrq(tmp_path: Path, sysrq: str, letter: str, operation: str) -> None:
    refused = Desk(tmp_path).refused(
        lambda first, _: first.keyboard.press(f"alt+{sysrq}"),
        lambda first, _: first.keyboard.down("alt_r"),
        lambda first, _: first.keyboard.down(sysrq),
        lambda first, _: first.keyboard.type("x" + letter),
    )
    assert refused == operation


def test_magic_sysrq_listens_until_alt_is_let_go(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    refused = desk.refused(
        lambda first, _: first.keyboard.down("alt"),
        lambda first, _: first.keyboard.press("print"),
        lambda first, _: first.keyboard.press("b"),
    )
    assert refused == "power.reset"

    async def let_go() -> None:
        keyboard = desk.program().keyboard
        await keyboard.down("alt")
        await keyboard.press("print")
        await keyboard.up("alt")
        await keyboard.down("alt")
        await keyboard.press("b")

    asyncio.run(let_go())
    assert {"alt", "b"} in desk.down()


def test_the_place_of_a_key_counts_and_not_what_the_layout_prints_there(tmp_path: Path) -> None:
    # In a French layout `q` types the key at the place of `a`; Magic SysRq goes by places.
    french = Desk(tmp_path, layout="fr")

    async def plain() -> None:
        keyboard = french.program().keyboard
        await keyboard.down("alt")
        await keyboard.down("print")
        await keyboard.type("a,;")
        await keyboard.release_all()

    asyncio.run(plain())
    refused = french.refused(
        lambda first, _: first.keyboard.down("alt"),
        lambda first, _: first.keyboard.down("print"),
        lambda first, _: first.keyboard.type("abc"),
    )
    assert refused == "power.reset"


@pytest.mark.parametrize(("key", "operation"), [("power", "power.shutdown"), ("sleep", "power.shutdown")])
def test_power_keys(tmp_path: Path, key: str, operation: str) -> None:
    assert Desk(tmp_path).refused(lambda first, _: first.keyboard.press(key)) == operation
    assert chord_operation([key]) == operation
    assert chord_operation(["wake"]) == "power.on"


def test_a_key_that_one_program_holds_and_another_presses(tmp_path: Path) -> None:
    """What another program left down is let go before ours goes down, so that no chord comes about."""
    desk = Desk(tmp_path)

    async def run() -> None:
        first, second = desk.program(), desk.program()
        await first.keyboard.down("ctrl")
        await second.keyboard.down("alt")
        await first.keyboard.down("delete")
        await second.keyboard.press("a")

    asyncio.run(run())
    assert not any({"ctrl", "alt", "delete"} <= held for held in desk.down())


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["down", "up", "press", "type"]),
                          st.sampled_from(["ctrl", "ctrl_r", "alt", "alt_r", "delete", "kp_dot", "print", "b", "o"])),
                max_size=14))  # fmt: skip
def test_no_way_of_two_programs_puts_a_power_chord_down(acts: list[tuple[int, str, str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))

        async def run() -> None:
            programs = desk.program(), desk.program()
            for number, act, key in acts:
                keyboard = programs[number].keyboard
                try:
                    if act == "type":
                        await keyboard.type(key[0])
                    elif act == "press":
                        await keyboard.press(key, hold=0)
                    else:
                        await (keyboard.down(key) if act == "down" else keyboard.up(key))
                except SafetyError:
                    continue

        asyncio.run(run())
        board = Board()
        for sent in desk.lent.sent:
            if sent.operation in ("key.down", "key.up"):
                assert not board.take(KeyEvent(str(sent.detail), sent.operation == "key.down"))


def test_each_power_operation_of_a_batch_is_decided_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "power.reset")
    keys = [KeyEvent(key, True) for key in ("alt", "print", "b", "o")]
    assert desk.refused(lambda first, _: first.keyboard.send(keys)) == "power.off"

    async def twice() -> None:
        await desk.program().keyboard.press("ctrl+alt+delete", times=2)

    asyncio.run(twice())
    assert sum({"ctrl", "alt", "delete"} <= held for held in desk.down()) == 6 - 4


def test_what_is_no_key_is_no_way_round(tmp_path: Path) -> None:
    async def run() -> None:
        desk = Desk(tmp_path)
        for name in ("Delete", "DEL", "delete ", "0x53"):
            assert name not in KEYS
            with pytest.raises(ConfigError, match="there is no key"):
                await desk.program().keyboard.send([KeyEvent("ctrl", True), KeyEvent(name, True)])
        assert desk.lent.sent == []

    asyncio.run(run())


def test_where_nothing_can_be_kept_nothing_goes_down(tmp_path: Path) -> None:
    async def run() -> None:
        desk = Desk(tmp_path / "gone")
        with pytest.raises(ConfigError, match="nothing was sent"):
            await desk.program().keyboard.down("ctrl")
        assert desk.lent.sent == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("texts", "operation"),
    [
        (["\x01b"], "power.reset"),
        (["\x01", "b"], "power.reset"),
        (["ls\n\x01\x01\x01", "bo"], "power.reset"),
        (["\x01x"], "power.off"),
        (["\x01", "csystem_reset\n"], "power.off"),
    ],
)
def test_a_serial_break_and_its_like(tmp_path: Path, texts: list[str], operation: str) -> None:
    def by(program: int, text: str) -> Callable[[Machine, Machine], Awaitable[None]]:
        return lambda *programs: programs[program].console.write(text)

    assert Desk(tmp_path).refused(*(by(i % 2, text) for i, text in enumerate(texts))) == operation


def test_text_with_a_literal_escape_is_text(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def run() -> None:
        await desk.program().console.write("\x01\x01b")
        await desk.program().console.write("\x01")
        await desk.program().console.write("h")
        await desk.program().console.write("box")

    asyncio.run(run())
    assert [sent.detail for sent in desk.lent.sent] == ["\x01\x01b", "\x01", "h", "box"]
