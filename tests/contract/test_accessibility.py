"""A desktop through its accessibility tree; every driver that lends it keeps to this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing

import pytest
from guests.desktop.session import DesktopSession
from tests.agents import Agent, running
from tests.desktop import Driven
from tests.lent import lent

from reflexarc.drivers.agent.driver import AgentCapabilities
from reflexarc.errors import OperationRejectedError, OperationTimeoutError
from reflexarc.machine.accessibility import Accessibility, Element, Selector
from reflexarc.machine.capabilities import Button, KeyEvent

BUILD = Selector(role="AXButton", name="Build")


@pytest.fixture(scope="module")
def agent(desktop: DesktopSession, gtk3: Driven, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock", extra=desktop.environ) as agent:
        yield agent


def through(agent: Agent, act: Callable[[AgentCapabilities, Accessibility], Awaitable[None]]) -> None:
    """Do that through a driver of its own."""

    async def run() -> None:
        async with lent(agent.path.parent, transport="unix", path=agent.path, pixels=True) as found:
            assert found.accessibility is not None
            await act(found, found.accessibility)

    asyncio.run(run())


def test_the_applications_are_told(agent: Agent, gtk3: Driven) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        assert gtk3.pid in [app.pid for app in await tree.apps()]

    through(agent, act)


def test_a_tree_and_its_outline_name_the_same_elements(agent: Agent, gtk3: Driven) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        whole = await tree.dump(gtk3.pid)
        assert whole.complete
        assert whole.root is not None
        elements = list(walk(whole.root))
        assert len(elements) == whole.count
        (build,) = [each for each in elements if each.role == "AXButton" and each.name == "Build"]
        assert (build.native, build.enabled, "AXPress" in build.actions) == ("push-button", True, True)
        outline = (await tree.dump(gtk3.pid, form="outline")).outline
        assert f'- button "Build" [ref={build.ref}]' in outline
        below = await tree.dump(root=build.ref)
        assert below.root is not None
        assert (below.root.ref, below.root.name) == (build.ref, "Build")
        capped = await tree.dump(gtk3.pid, max_nodes=3)
        assert (capped.complete, capped.capped) == (False, "nodes")

    through(agent, act)


def walk(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from walk(child)


def test_an_element_is_found_pressed_and_its_effect_awaited(agent: Agent, gtk3: Driven) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        build = await tree.wait(BUILD, timeout=20)
        assert build is not None
        waiting = asyncio.create_task(tree.wait(Selector(name="built"), timeout=20))
        await tree.act(build.ref, "AXPress")
        built = await waiting
        assert built is not None
        assert (built.role, built.native) == ("AXStaticText", "label")
        (again,) = (await tree.find(BUILD)).elements
        assert again.ref == build.ref
        assert again.path

    through(agent, act)


def test_what_is_not_there_is_an_empty_result_and_waiting_for_it_ends(agent: Agent) -> None:
    nothing = Selector(role="AXButton", name="no such button")

    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        assert (await tree.find(nothing)).elements == ()
        assert await tree.wait(nothing, gone=True, timeout=5) is None
        for selector in (nothing, Selector(name="no such button", enabled=True)):
            with pytest.raises(OperationTimeoutError):
                await tree.wait(selector, timeout=0.2)

    through(agent, act)


def test_being_enabled_or_in_focus_can_be_asked_for(agent: Agent) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        (build,) = (await tree.find(BUILD)).elements
        await tree.focus(build.ref)
        focused = await tree.wait(Selector(name="Build", focused=True), timeout=10)
        assert focused is not None
        assert focused.ref == build.ref
        assert (await tree.find(Selector(name="Build", enabled=True))).elements != ()
        assert (await tree.find(Selector(name="Build", enabled=False))).elements == ()

    through(agent, act)


def test_a_value_is_set_and_read_again(agent: Agent) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        (field, *_) = (await tree.find(Selector(role="AXTextField"))).elements
        await tree.set_value(field.ref, "grün")
        read = await tree.dump(root=field.ref)
        assert read.root is not None
        assert read.root.value == "grün"

    through(agent, act)


def test_a_reference_that_names_nothing_is_refused(agent: Agent) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        (build,) = (await tree.find(BUILD)).elements
        for ref in (f"{build.ref}99999", "e1", 1):
            with pytest.raises(OperationRejectedError) as refused:
                await tree.act(ref, "AXPress")
            assert refused.value.code == "stale_ref"

    through(agent, act)


def test_that_there_is_a_tree_is_a_change(agent: Agent) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        async with asyncio.timeout(20), aclosing(tree.changes()) as changes:  # type: ignore[type-var]
            await anext(changes)

    through(agent, act)


def test_the_desktop_is_seen_pointed_at_and_typed_into(agent: Agent) -> None:
    async def act(found: AgentCapabilities, tree: Accessibility) -> None:
        assert found.screen is not None
        assert found.pointer is not None
        assert found.keyboard is not None
        frame = await found.screen.screenshot()
        assert (frame.width, frame.height) == (1280, 1024)
        assert frame.pixels.max() > 0
        (field, *_) = (await tree.find(Selector(role="AXTextField"))).elements
        assert field.area is not None
        await tree.set_value(field.ref, "")
        x, y = field.area.x + field.area.width / 2, field.area.y + field.area.height / 2
        at = await tree.at(x, y)
        assert at is not None
        await found.pointer.move(round(x), round(y))
        for down in (True, False):
            await found.pointer.button(Button.LEFT, down)
        # The window manager gives a window that was clicked the focus in its own time.
        assert await tree.wait(Selector(role="AXTextField", focused=True), timeout=10) is not None
        keys = [KeyEvent(key, down) for key in ("a", "minus", "7") for down in (True, False)]
        await found.keyboard.send([KeyEvent("shift", True), *keys[:2], KeyEvent("shift", False), *keys[2:]])
        assert await tree.wait(Selector(role="AXTextField", value="A-7"), timeout=10) is not None
        with pytest.raises(OperationRejectedError, match="not on its screen"):
            await found.pointer.move(1280, 0)
        with pytest.raises(OperationRejectedError, match="has no key kp_7"):
            await found.keyboard.send([KeyEvent("a", True), KeyEvent("kp_7", True)])

    through(agent, act)
