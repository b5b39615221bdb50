"""Firefox read and acted on; a desktop of its own, since a browser takes what memory there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from guests.desktop import page
from guests.desktop.session import DesktopSession
from tests.contract.test_atspi import pairs
from tests.contract.test_atspi_toolkits import press, read_by_libatspi
from tests.desktop import Driven

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility

pytestmark = pytest.mark.full


@pytest.fixture
def firefox(desktop: DesktopSession, accessibility: Accessibility, tmp_path: Path) -> Iterator[Driven]:
    process = desktop.firefox(page.write(tmp_path / "page.html", 20))
    driven = Driven(accessibility, process.pid)
    try:
        driven.wait(role="button", name="Button 19", timeout=60)
        yield driven
    finally:
        desktop.end(process)


def test_firefox_is_read_as_libatspi_reads_it(firefox: Driven, desktop: DesktopSession) -> None:
    # Its own parts come and go for a while after its start.
    for _ in range(10):
        theirs = read_by_libatspi(firefox, desktop)
        dump = firefox.run(firefox.session.dump(firefox.pid))
        if pairs(dump["tree"]) == theirs:
            break
    assert dump["complete"]
    assert pairs(dump["tree"]) == theirs


def test_a_button_of_a_page_is_found_without_reading_the_tree(firefox: Driven) -> None:
    (found,) = firefox.find(role="button", name="Build")
    assert found["path"] == ["Firefox", "Sample page — Mozilla Firefox", "Sample page"]
    assert press(firefox, role="button", name="Build") == "delivered"
    firefox.wait(text="built")


def test_firefox_takes_text_by_keys(firefox: Driven) -> None:
    typed = firefox.run(firefox.session.set_value(firefox.ref(role="textbox", name="Name"), "naïve €"))
    assert (typed.delivery, typed.way) == ("delivered", "keys")
    assert firefox.wait(name="Name", value="naïve €")["role"] == "AXTextField"
