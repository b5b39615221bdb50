"""The accessibility rung: phases by a guest's tree, and what it says beside the other rungs."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from pathlib import Path
from typing import Literal

import pytest
from tests.elements import button, desktop, menu, wallpaper, window
from tests.unit.sensing.render import VGA

from reflexarc.drivers.replay.driver import ReplayCapabilities, open_replay
from reflexarc.drivers.replay.script import Agent, Entry
from reflexarc.errors import ConfigError, ConnectError
from reflexarc.machine.accessibility import App, Element, Found, Ref, Selector, Tree
from reflexarc.machine.capabilities import Capabilities, PowerState
from reflexarc.machine.frame import Frame
from reflexarc.machine.reach import RETRY
from reflexarc.observation import Observation, Sighting
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.recogniser import Recogniser, Recognisers
from reflexarc.sensing.tree import RunningApp, ShownElement, TreeReading
from reflexarc.sensing.watcher import Watcher

RECOGNISERS = load_recognisers()
WINDOW = Selector(role="AXWindow")
SECRET = Selector(role="AXSecureTextField")
BEGIN = Selector(role="AXButton", name="Begin Installation")
SUMMARY = Selector(text="INSTALLATION SUMMARY")
SHELL = ("shell", "Terminal")


def tree(*apps: str, at: float = 1.0, **found: tuple[Element, ...]) -> TreeReading:
    asked = {"window": WINDOW, "secret": SECRET, "begin": BEGIN, "summary": SUMMARY}
    return TreeReading(at, apps, {asked[key]: elements for key, elements in found.items()})


FILES = (window("Files"),)


class TestPhases:
    @pytest.mark.parametrize(
        ("reading", "phase"),
        [
            (tree("Files", window=FILES), "desktop"),
            (tree("Files", "xfce4-screensaver", window=FILES), "desktop"),
            (tree("Files"), None),
            (tree(), None),
            (tree("lightdm-gtk-greeter", window=(window("lightdm-gtk-greeter"),)), "graphical_login"),
            (tree("sddm-greeter-qt6"), "graphical_login"),
            (tree("Files", "xfce4-screensaver-dialog", window=FILES), "screen_locked"),
            (tree("Files", "kscreenlocker_greet", window=FILES), "screen_locked"),
            (
                tree(
                    "Files",
                    "gnome-shell",
                    window=FILES,
                    secret=(Element(3, "AXTextField", path=("gnome-shell",)),),
                ),
                None,
            ),
            (
                tree(
                    "Files", "firefox", window=FILES, secret=(Element(3, "AXTextField", path=("firefox",)),)
                ),
                "desktop",
            ),
            (tree("gnome-initial-setup", window=FILES), "first_boot_setup"),
            (tree("calamares", window=FILES), None),
            (tree("anaconda", window=FILES, begin=FILES), None),
            (tree("anaconda", window=FILES, begin=FILES, summary=FILES), "installer_summary"),
        ],
    )
    def test_what_a_tree_speaks_for(self, reading: TreeReading, phase: str | None) -> None:
        found = RECOGNISERS.of_tree(reading)
        sure = found is not None and found.confidence >= 0.8
        assert (found.phase if found and sure else None) == phase
        assert phase is None or (
            found is not None and (found.rung, found.complete) == ("accessibility", True)
        )

    def test_recognisers_name_what_they_ask(self) -> None:
        assert set(RECOGNISERS.selectors) == {WINDOW, SECRET, BEGIN, SUMMARY}

    @pytest.mark.parametrize(
        ("line", "message", "evidence"),
        [
            (3, "does not go together", "[{element: {name: a}}, {text: b}]"),
            (3, "does not go together", "[{application: a}, {serial: b}]"),
            (3, "at least one of role", "[{element: {}}]"),
            (3, "the key 'nam' is unknown", "[{element: {nam: a}}]"),
            (3, "1 to 1000 characters", "[{element: {name: ''}}]"),
            (3, "'element' takes application beside it", "[{element: {name: a}, where: line}]"),
            (3, "repetition", "[{application: '(a*)*'}]"),
        ],
    )
    def test_a_mistake_in_a_file(self, tmp_path: Path, line: int, message: str, evidence: str) -> None:
        file = tmp_path / "own.yaml"
        file.write_text(f"recognisers:\n  - phase: desktop\n    evidence: {evidence}\n")
        with pytest.raises(ConfigError, match=message) as caught:
            load_recognisers([tmp_path])
        assert caught.value.line in (line, line - 1)

    def test_evidence_reads_as_its_file_states_it(self) -> None:
        assert str(RunningApp(re.compile("^a$"))) == "application '^a$'"
        shown = ShownElement(Selector(role="AXButton", name="OK"), re.compile("x"))
        assert str(shown) == "element AXButton \"OK\" (application 'x')"


def graphic(at: float = 5.0) -> Frame:
    return Frame(wallpaper(), at, 1)


class TestLadder:
    def test_it_answers_where_nothing_else_does_and_is_as_old_as_what_it_read(self) -> None:
        seen = Ladder(RECOGNISERS).read(Readings(at=6.0, frame=graphic(), tree=tree("Files", window=FILES)))
        assert (seen.phase, seen.rung, seen.origin, seen.complete) == (
            "desktop",
            "accessibility",
            "accessibility",
            True,
        )
        assert (seen.at, seen.frame) == (1.0, 1)

    def test_what_is_read_on_the_screen_goes_first(self) -> None:
        frame = Frame(menu(0), 5.0, 1)
        seen = Ladder(RECOGNISERS).read(Readings(at=6.0, frame=frame, tree=tree("Files", window=FILES)))
        assert (seen.phase, seen.rung) == ("grub_menu", "text")

    def test_it_is_asked_again_though_the_picture_stands_still(self) -> None:
        ladder = Ladder(RECOGNISERS)
        frame = graphic()
        phases = [
            ladder.read(Readings(at=6.0, frame=frame, tree=reading)).phase
            for reading in (None, tree("Files", window=FILES), tree("sddm-greeter"), None)
        ]
        assert phases == ["unknown", "desktop", "graphical_login", "unknown"]

    def test_without_a_picture(self) -> None:
        seen = Ladder(RECOGNISERS).read(Readings(at=6.0, tree=tree("Files", window=FILES)))
        assert (seen.phase, seen.rung, seen.frame) == ("desktop", "accessibility", None)

    def test_a_machine_that_is_off_has_no_desktop(self) -> None:
        ladder = Ladder(RECOGNISERS)
        readings = Readings(at=6.0, power=PowerState.OFF, tree=tree("Files", window=FILES))
        seen = ladder.read(readings)
        assert (seen.phase, ladder.disputed(seen, readings)) == ("power_off", "desktop")

    @pytest.mark.parametrize(
        ("frame", "disputed"),
        [
            (Frame(menu(0), 5.0, 1), "desktop"),
            (VGA.frame(["root@lab:~#"], at=5.0), ""),
            (graphic(), ""),
        ],
    )
    def test_against_what_it_speaks(self, frame: Frame, disputed: str) -> None:
        ladder = Ladder(RECOGNISERS)
        readings = Readings(at=6.0, frame=frame, tree=tree("Files", window=FILES))
        assert ladder.disputed(ladder.read(readings), readings) == disputed

    def test_an_element_that_changed_is_a_change(self) -> None:
        sighting = Sighting("k", 7.0, 1)
        readings = Readings(at=8.0, frame=graphic(), elements=(sighting,), elements_changed_at=7.0)
        seen = Ladder(RECOGNISERS).read(readings)
        assert (seen.changed_at, seen.elements, seen.at, seen.oldest) == (7.0, (sighting,), 5.0, 5.0)

    @pytest.mark.parametrize(("frame", "changed_at"), [(None, 6.5), (graphic(), 5.0)])
    def test_where_there_is_no_picture_any_change_of_the_tree_is_one(
        self, frame: Frame | None, changed_at: float
    ) -> None:
        ladder = Ladder(RECOGNISERS)
        ladder.read(Readings(at=6.0, frame=frame))
        assert ladder.read(Readings(at=8.0, frame=frame, tree_moved_at=6.5)).changed_at == changed_at


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def watching(lent: Capabilities) -> Watcher:
    return Watcher(lent, Ladder(RECOGNISERS), "lab")


def opened(*elements: Element, agent: Agent = Agent.ANSWERS) -> ReplayCapabilities:
    return open_replay(desktop(*elements, agent=agent), machine="lab")


async def until(watcher: Watcher, count: int | None, after: Observation | None = None) -> Observation:
    """The first observation that tells of so many elements; None: that can't tell."""
    seen = after
    while True:
        seen = await watcher.next(seen, 10)
        assert seen is not None
        if [one.count for one in seen.elements] == ([] if count is None else [count]):
            return seen


class TestSearch:
    def test_a_change_is_told_before_anybody_would_ask_again(self) -> None:
        async def scenario() -> None:
            lent = opened()
            async with watching(lent) as watcher:
                watcher.seek({}, {"save": Selector(name="Save")})
                none = await until(watcher, 0)
                lent.play(Entry(elements=(button("Save"),)))
                one = await until(watcher, 1, none)
                (before,), (after,) = none.elements, one.elements
                assert (after.key, after.ref, after.role, after.name) == ("save", 1, "push button", "Save")
                assert before.at < after.at < before.at + RETRY
                assert one.changed_at == after.at
                assert (watcher.told(1), watcher.told(2)) == (True, False)

        run(scenario())

    def test_an_agent_that_goes_leaves_nothing_that_can_be_told(self) -> None:
        async def scenario() -> None:
            lent = opened(button("Save"), window("Files"))
            async with watching(lent) as watcher:
                watcher.seek({}, {"save": Selector(name="Save")})
                seen = await until(watcher, 1)
                while seen.phase != "desktop":
                    seen = await until(watcher, 1, seen)
                lent.play(Entry(agent=Agent.ABSENT))
                gone = await until(watcher, None, seen)
                assert (gone.phase, gone.elements) == ("unknown", ())

        run(scenario())

    def test_fresh_looks_for_itself(self) -> None:
        async def scenario() -> None:
            async with watching(opened(button("Save"))) as watcher:
                watcher.seek({}, {"save": Selector(name="Save")})
                before = time.monotonic()
                seen = await watcher.fresh()
                assert [one.count for one in seen.elements] == [1]
                assert seen.oldest >= before

        run(scenario())

    def test_one_that_hangs_is_waited_for_once(self) -> None:
        async def scenario() -> None:
            played = desktop(button("Save"), agent=Agent.HANGS, pixels=menu(0))
            lent = open_replay(played, machine="lab")
            async with watching(lent) as watcher:
                watcher.seek({}, {"save": Selector(name="Save")})
                assert (await watcher.fresh()).phase == "grub_menu"
                lent.play(Entry(frame=menu(1)))
                begun = time.monotonic()
                seen = await watcher.fresh()
                assert (seen.phase, seen.elements) == ("grub_menu", ())
                assert time.monotonic() - begun < 0.9
                assert await watcher.outline(100) == ""

        run(scenario())

    def test_what_a_recogniser_asks_and_can_t_be_told_says_nothing(self) -> None:
        async def scenario() -> None:
            async with watching(Capabilities(accessibility=Halting())) as watcher:
                watcher.seek({}, {"save": Selector(name="Save"), "window": WINDOW})
                seen = await watcher.fresh(doubting=True)
                assert (seen.phase, [one.key for one in seen.elements]) == ("unknown", ["window"])

        run(scenario())

    def test_a_power_cycle_voids_what_was_found(self) -> None:
        async def scenario() -> None:
            lent = opened(window("Files"))
            async with watching(lent) as watcher:
                watcher.seek({}, {"window": WINDOW})
                await until(watcher, 1)
                lent.play(Entry(power=PowerState.OFF, agent=Agent.ABSENT))
                off = await watcher.fresh(doubting=True)
                assert (off.phase, off.disputed, off.elements) == ("power_off", "", ())

        run(scenario())

    def test_the_outline_is_cut(self) -> None:
        async def scenario() -> None:
            async with watching(opened(*(button(f"b{n}", n) for n in range(100)))) as watcher:
                outline = await watcher.outline(200)
                assert outline.startswith('- push button "b0" [ref=0]\n')
                assert outline.endswith("\n# capped: there is more")
                assert len(outline) < 250

        run(scenario())

    def test_lessons_are_looked_for_at_once(self) -> None:
        async def scenario() -> None:
            async with watching(opened(button("Begin"))) as watcher:
                assert (await watcher.fresh()).phase == "unknown"
                lesson = Recogniser(
                    "acme_ready",
                    (ShownElement(Selector(name="Begin")),),
                    rung="accessibility",
                    source="tree",
                    taught=True,
                )
                taught: Recognisers = RECOGNISERS.with_lessons([lesson], [])
                watcher.learn(taught)
                seen = await watcher.fresh()
                assert (seen.phase, seen.rung) == ("acme_ready", "accessibility")

        run(scenario())


class Halting:
    """A desktop of which only the windows are told in full; everything else stops at a bound."""

    async def apps(self) -> Sequence[App]:
        return [App("Files", 1)]

    async def dump(
        self,
        app: int | None = None,
        *,
        root: Ref | None = None,
        form: Literal["tree", "outline"] = "tree",
        max_depth: int | None = None,
        max_nodes: int | None = None,
        interactive_only: bool = False,
    ) -> Tree:
        raise ConnectError("it halts", machine="lab")

    async def find(self, selector: Selector, *, limit: int = 20) -> Found:
        return Found(FILES) if selector == WINDOW else Found((), complete=False, capped="deadline")

    async def wait(self, selector: Selector, *, gone: bool = False, timeout: float = 30.0) -> Element | None:
        raise ConnectError("it halts", machine="lab")

    async def at(self, x: float, y: float) -> Element | None:
        return None

    async def act(self, ref: Ref, action: str) -> None:
        raise ConnectError("it halts", machine="lab")

    async def set_value(self, ref: Ref, value: str | float | bool) -> None:
        raise ConnectError("it halts", machine="lab")

    async def focus(self, ref: Ref) -> None:
        raise ConnectError("it halts", machine="lab")

    async def changes(self) -> AsyncGenerator[None, None]:
        yield
        raise ConnectError("it halts", machine="lab")
