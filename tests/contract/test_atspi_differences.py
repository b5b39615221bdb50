"""Dumps of a real application as differences from earlier ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.test_atspi import flat
from tests.desktop import Driven


def dumped(driven: Driven, **options: Any) -> dict[str, Any]:
    told: dict[str, Any] = driven.run(driven.session.dump(driven.pid, **options))
    return told


def press(driven: Driven, name: str) -> None:
    driven.run(driven.session.act(driven.ref(name=name, role="button"), "AXPress"))


def test_an_outline_since_another_tells_what_changed_and_the_way_to_it(own_gtk3: Driven) -> None:
    verbose = own_gtk3.ref(name="Verbose")
    first = dumped(own_gtk3, outlined=True)
    nothing = dumped(own_gtk3, outlined=True, since=first["dump"])
    assert (nothing["outline"], nothing["removed"], nothing["since"]) == ("", [], first["dump"])
    own_gtk3.run(own_gtk3.session.set_value(verbose, True))
    own_gtk3.wait(name="Verbose", value="1")
    second = dumped(own_gtk3, outlined=True, since=str(first["dump"]))
    *way, change = second["outline"].splitlines()
    assert [line.split(" [")[0] for line in way] == [
        '- application "gtk3.py"',
        '  - window "GTK 3 sample"',
    ]
    assert change == f'    - <changed> checkbox "Verbose" [ref={verbose}] [checked]'


def test_what_came_is_told_and_what_is_gone_is_named(own_gtk3: Driven) -> None:
    press(own_gtk3, "Add")
    added = own_gtk3.wait(role="button", name="Added")
    full = dumped(own_gtk3, outlined=True)
    tree = dumped(own_gtk3)
    press(own_gtk3, "Drop")
    own_gtk3.wait(name="Added", gone=True)
    outline = dumped(own_gtk3, outlined=True, since=full["dump"])
    assert added["ref"] in outline["removed"]
    assert outline["outline"].splitlines()[-1].startswith("# removed: ")
    assert added["ref"] in outline["outline"].splitlines()[-1]
    difference = dumped(own_gtk3, since=tree["dump"])
    assert added["ref"] in difference["removed"]
    press(own_gtk3, "Add")
    again = own_gtk3.wait(role="button", name="Added")
    difference = dumped(own_gtk3, since=difference["dump"])
    told = flat(difference["tree"])
    assert again["ref"] in [node["ref"] for node in told if node.get("changed")]
    assert "Name" not in [node.get("title") for node in told]


def test_since_what_is_not_kept_the_whole_is_told(gtk3: Driven) -> None:
    outline = dumped(gtk3, outlined=True)
    for since in (999, "999", "d1", dumped(gtk3)["dump"], dumped(gtk3, outlined=True, max_depth=1)["dump"]):
        again = dumped(gtk3, outlined=True, since=since)
        assert (again["outline"], "since" in again) == (outline["outline"], False)


def test_of_many_dumps_the_last_are_kept(gtk3: Driven) -> None:
    numbers = [dumped(gtk3, max_depth=1 + number % 5)["dump"] for number in range(12)]
    assert numbers == sorted(set(numbers))
    assert "since" not in dumped(gtk3, max_depth=1, since=numbers[0])
    assert dumped(gtk3, max_depth=1, since=numbers[10])["since"] == numbers[10]


@pytest.mark.parametrize("outlined", [True, False])
def test_a_dump_that_was_cut_is_no_measure_of_what_is_gone(gtk3: Driven, outlined: bool) -> None:
    cut = dumped(gtk3, outlined=outlined, max_nodes=3)
    assert "since" not in dumped(gtk3, outlined=outlined, since=cut["dump"])
