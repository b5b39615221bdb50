"""The same operations on other toolkits, each with its own gaps; and an application that means harm."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guests.desktop import page
from guests.desktop.session import SYSTEM_PYTHON, DesktopSession
from tests.contract.test_atspi import flat, pairs
from tests.desktop import Driven, started

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.roles import ROLES


@pytest.fixture
def gtk4(desktop: DesktopSession, accessibility: Accessibility) -> Iterator[Driven]:
    yield from started(desktop, accessibility, "gtk4")


@pytest.fixture
def qt6(desktop: DesktopSession, accessibility: Accessibility) -> Iterator[Driven]:
    yield from started(desktop, accessibility, "qt6")


@pytest.fixture
def endless(desktop: DesktopSession, accessibility: Accessibility) -> Iterator[Driven]:
    yield from started(desktop, accessibility, "endless")


@pytest.fixture
def chromium(desktop: DesktopSession, accessibility: Accessibility, tmp_path: Path) -> Iterator[Driven]:
    process = desktop.chromium(page.write(tmp_path / "page.html", 20))
    driven = Driven(accessibility, process.pid)
    try:
        driven.wait(role="button", name="Build", timeout=60)
        yield driven
    finally:
        desktop.end(process)


def read_by_libatspi(driven: Driven, desktop: DesktopSession) -> Counter[tuple[str, str]]:
    reader = [SYSTEM_PYTHON, "guests/desktop/libatspi.py", str(driven.pid)]
    done = subprocess.run(reader, env=desktop.environ, capture_output=True, check=True)
    return Counter((ROLES[role], name) for role, name in json.loads(done.stdout)["pairs"])


def press(driven: Driven, **wanted: Any) -> str:
    return driven.run(driven.session.act(driven.ref(**wanted), "AXPress")).delivery


def test_gtk4_is_read_as_libatspi_reads_it(gtk4: Driven, desktop: DesktopSession) -> None:
    dump = gtk4.run(gtk4.session.dump(gtk4.pid))
    assert dump["complete"]
    assert pairs(dump["tree"]) == read_by_libatspi(gtk4, desktop)


def test_gtk4_is_acted_on_and_placed_on_the_screen(gtk4: Driven) -> None:
    assert press(gtk4, role="button", name="Build") == "delivered"
    gtk4.wait(name="built")
    name, check = gtk4.ref(role="textbox", name="Name"), gtk4.ref(role="checkbox", name="Verbose")
    assert gtk4.run(gtk4.session.set_value(name, "new")).delivery == "delivered"
    assert gtk4.find(role="textbox", name="Name")[0]["value"] == "new"
    clicked = gtk4.run(gtk4.session.set_value(check, True))
    assert (clicked.delivery, clicked.way) == ("delivered", "pointer")
    gtk4.wait(name="Verbose", value="1")


def test_qt6_is_read_as_libatspi_reads_it(qt6: Driven, desktop: DesktopSession) -> None:
    dump = qt6.run(qt6.session.dump(qt6.pid))
    assert dump["complete"]
    assert pairs(dump["tree"]) == read_by_libatspi(qt6, desktop)


def test_qt6_answers_a_modal_action_at_once(qt6: Driven) -> None:
    assert press(qt6, name="Ask") == "delivered"
    qt6.wait(text="Sure")
    assert press(qt6, role="button", text="Yes") == "delivered"
    qt6.wait(name="agreed")
    level = qt6.ref(name="Level")
    assert qt6.run(qt6.session.set_value(level, 42)).delivery == "delivered"
    assert qt6.wait(name="Level", value="42")["ref"] == level


def test_a_table_without_end_is_read_where_it_shows(endless: Driven) -> None:
    dump = endless.run(endless.session.dump(endless.pid))
    assert (dump["complete"], dump["capped"]) == (False, "children")
    cells = [node["title"] for node in flat(dump["tree"]) if node.get("native") == "table-cell"]
    assert cells == [f"cell_{row}_{column}" for row in range(5, 10) for column in range(2, 5)]
    assert '- table "Sheet" [2147483647 children]' in endless.outline()


def test_a_tree_that_holds_itself_ends(endless: Driven) -> None:
    dump = endless.run(endless.session.dump(endless.pid))
    assert Counter(node["role"] for node in flat(dump["tree"]))["AXButton"] == 1


@pytest.mark.full
def test_chromium_is_read_as_libatspi_reads_it(chromium: Driven, desktop: DesktopSession) -> None:
    theirs = read_by_libatspi(chromium, desktop)
    dump = chromium.run(chromium.session.dump(chromium.pid))
    assert dump["complete"]
    assert pairs(dump["tree"]) == theirs


@pytest.mark.full
def test_chromium_takes_text_by_keys(chromium: Driven) -> None:
    typed = chromium.run(chromium.session.set_value(chromium.ref(role="textbox", name="Name"), "naïve €"))
    assert (typed.delivery, typed.way) == ("delivered", "keys")
    assert press(chromium, role="button", name="Build") == "delivered"
    chromium.wait(name="built")
