"""Whose doing a run is: who began it, and who said last how it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from reflexarc.playbook.events import Aborted, Event, Replied, Started
from reflexarc.runs.teaching import is_agent


def begun_by_agent(events: Sequence[Event]) -> bool:
    """Tell whether an agent began the run; a run whose beginning can't be read is a person's."""
    return bool(events) and isinstance(events[0], Started) and is_agent(events[0].by)


def last_author(events: Sequence[Event]) -> str:
    """Who gave the last reply or ended the run, empty where nobody did."""
    said = (event.by for event in reversed(events) if isinstance(event, Replied | Aborted))
    return next(said, "")
