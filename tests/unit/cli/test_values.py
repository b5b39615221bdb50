"""What is written on the command line is set as what the element takes."""

from __future__ import annotations

import click
import pytest

from reflexarc.cli.ax import typed
from reflexarc.machine.accessibility import Element


@pytest.mark.parametrize(
    ("role", "written", "value"),
    [
        ("AXCheckBox", "True", True),
        ("AXRadioButton", "false", False),
        ("AXSlider", "40", 40.0),
        ("AXTextField", "40", "40"),
        ("AXTextField", "true", "true"),
    ],
)
def test_a_value_has_the_type_that_its_element_takes(
    role: str, written: str, value: str | float | bool
) -> None:
    found = typed(Element("e1", role), written)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("role", "written"), [("AXCheckBox", "yes"), ("AXSlider", "much"), ("AXSlider", "nan")]
)
def test_another_is_refused(role: str, written: str) -> None:
    with pytest.raises(click.UsageError, match=f"takes .*, not '{written}'"):
        typed(Element("e1", role), written)
