from __future__ import annotations

import itertools

from reflexarc.drivers.qemu.pace import Pace
from reflexarc.drivers.qemu.picture import BURST, INTERVAL, LULL


def passed(changes: list[float]) -> list[float]:
    """When changes at these times are handed on."""
    pace, found, due = Pace(INTERVAL, BURST, LULL), [], float("inf")
    for now in [*changes, float("inf")]:
        if due < now:
            pace.passed(due)
            found.append(due)
        if now < float("inf"):
            due = now + pace.delay(now)
    return found


def test_a_few_changes_are_handed_on_at_once() -> None:
    changes = [number * 0.03 for number in range(BURST)]
    assert passed(changes) == changes


def test_changes_without_end_are_handed_on_at_a_steady_rate() -> None:
    found = [now for now in passed([number * 0.01 for number in range(1000)]) if now > 5]
    assert 0.9 * 5 / INTERVAL <= len(found) <= 5 / INTERVAL + 2
    assert max(b - a for a, b in itertools.pairwise(found)) <= INTERVAL + 0.02


def test_the_last_of_many_changes_is_handed_on_after_a_lull() -> None:
    changes = [number * 0.01 for number in range(1000)]
    assert changes[-1] < passed(changes)[-1] <= changes[-1] + LULL


def test_a_cursor_that_blinks_never_uses_the_burst_up() -> None:
    blinks = [number * 0.25 for number in range(100)]
    burst = [100 + number * 0.03 for number in range(BURST)]
    assert passed([*blinks, *burst]) == [*blinks, *burst]
