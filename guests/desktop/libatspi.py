"""Reads one application's tree through libatspi, element by element; run by Debian's own Python.

Prints the seconds that it took and every (role number, name) as JSON. Usage: libatspi.py PID [again]
"""

from __future__ import annotations

import json
import sys
import time

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402

SHOWING = Atspi.StateType.SHOWING
TEXTS = {Atspi.Role.TEXT, Atspi.Role.ENTRY, Atspi.Role.TERMINAL}


def read(element: Atspi.Accessible, pairs: list[tuple[int, str]]) -> None:
    """Read an element and those below it: role, name, states; of those that show place, actions and text."""
    role, name, states = element.get_role(), element.get_name(), element.get_state_set()
    pairs.append((int(role), name or ""))
    if states.contains(SHOWING):
        details(element, role)
    for index in range(min(element.get_child_count(), 2000)):
        child = element.get_child_at_index(index)
        if child is not None:
            read(child, pairs)


def details(element: Atspi.Accessible, role: Atspi.Role) -> None:
    component, action = element.get_component_iface(), element.get_action_iface()
    if component is not None:
        component.get_extents(Atspi.CoordType.SCREEN)
    if action is not None:
        for index in range(action.get_n_actions()):
            action.get_action_name(index)
    text = element.get_text_iface()
    if text is not None and role in TEXTS:
        Atspi.Text.get_text(text, 0, -1)


def main() -> None:
    desktop = Atspi.get_desktop(0)
    apps = [desktop.get_child_at_index(index) for index in range(desktop.get_child_count())]
    app = next(app for app in apps if app is not None and app.get_process_id() == int(sys.argv[1]))
    seconds = []
    for _ in range(2 if "again" in sys.argv else 1):
        pairs: list[tuple[int, str]] = []
        began = time.perf_counter()
        try:
            read(app, pairs)
        except GLib.Error as error:
            sys.exit(f"libatspi: {error}")
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": seconds, "pairs": pairs}))


if __name__ == "__main__":
    main()
