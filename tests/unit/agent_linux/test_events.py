"""What events make worth reading again."""

from __future__ import annotations

import pytest
from tests.unit.agent_linux.test_telling import mirror, send


@pytest.mark.parametrize("detail", ["insert/system", "delete/system"])
def test_a_child_that_comes_or_goes_as_a_part_of_a_text_has_the_children_read_again(detail: str) -> None:
    app = mirror()
    send(app, "TextChanged", 1, detail, 0, "a\ufffcb")
    assert (app.owner, "/e/1") in app.stale_children


def test_a_text_alone_leaves_the_children() -> None:
    app = mirror()
    send(app, "TextChanged", 1, "insert", 0, "ab")
    assert (app.stale, app.stale_children) == ({(app.owner, "/e/1")}, set())
