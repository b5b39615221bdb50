"""Text from machines in documents, and values in words."""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report.conftest import CLEANED, CONTROLS

from reflexarc.report.markup import Markup, element, joined
from reflexarc.report.text import bounded, clean, duration, moment, one_line


def test_control_sequences_and_characters_are_removed() -> None:
    assert clean(CONTROLS) == CLEANED
    assert clean("a\r\nb\tc\rd\ud800") == "a\nb\tcd"


@given(st.text())
def test_what_is_clean_may_stand_in_xml(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    node = Xml.Element("x", {"y": one_line(text, 10_000)})
    node.text = once
    again = Xml.fromstring(Xml.tostring(node))
    assert (again.text or "") == once
    assert again.get("y") == one_line(text, 10_000)


@given(st.text(st.sampled_from("<&\"'a\u4e2d\n\x00")), st.integers(1, 50))
def test_what_is_bounded_fits_when_escaped(text: str, limit: int) -> None:
    kept = bounded(text, limit)
    assert len(escape(kept.removesuffix("…")).encode()) <= limit
    assert clean(text).startswith(kept.removesuffix("…"))
    assert kept.endswith("…") or kept == clean(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.004, "4 ms"), (0.0995, "0.10 s"), (9.99, "9.99 s"), (9.996, "10.0 s"), (59.96, "1 min 00 s"),
     (725, "12 min 05 s"), (3599.6, "1 h 00 min"), (7_380, "2 h 03 min")],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00.0"), (3.24, "0:03.2"), (59.96, "1:00.0"), (3727, "1:02:07")]
)
def test_moments(seconds: float, words: str) -> None:
    assert moment(seconds) == words


def test_markup_escapes_whatever_is_none() -> None:
    inner = element("b", "<i>", class_='"x"', hidden=False, open=True, aria_label=None)
    assert inner == '<b class="&quot;x&quot;" open>&lt;i&gt;</b>'
    assert element("p", inner, "&", None) == f"<p>{inner}&amp;</p>"
    assert joined(Markup("<br>"), "<br>") == "<br>&lt;br&gt;"
    assert element("img", src="a&b") == '<img src="a&amp;b"/>'
