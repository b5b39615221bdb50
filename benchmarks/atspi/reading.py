"""Reading one application, ours and libatspi taking turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from guests.desktop import page
from guests.desktop.session import SYSTEM_PYTHON, DesktopSession

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.roles import ROLES
from reflexarc_agent.backends.linux.atspi.selecting import Selector
from reflexarc_agent.backends.linux.x11.devices import X11

TOOLKITS = {"gtk3": 400, "chromium": 200, "firefox": 200, "qt6": 300, "gtk4": 150}
"""The rows that the window of each has."""

Ours = tuple[float, float, dict[str, Any]]
Theirs = tuple[float, float, Counter[tuple[str, str]]]

TURNS, SETTLING = 5, 5
AGAIN = 20


def milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def start(desktop: DesktopSession, toolkit: str, rows: int) -> int:
    """Start the application; returns its process id once its button shows."""
    if toolkit == "firefox":
        process = desktop.firefox(page.write(desktop.folder / "page.html", rows))
    elif toolkit == "chromium":
        process = desktop.chromium(page.write(desktop.folder / "page.html", rows))
    else:
        process = desktop.app(toolkit, str(rows))
    with Accessibility(desktop.environ) as tree:
        last = f"Button {rows - 1}"
        tree.run(tree.session().wait(Selector(name=last, showing=False), target=process.pid, timeout=60))
    return process.pid


def theirs(desktop: DesktopSession, pid: int) -> Theirs:
    """Seconds of libatspi's first and second walk in a new process, and what it read."""
    command = [SYSTEM_PYTHON, "guests/desktop/libatspi.py", str(pid), "again"]
    done = subprocess.run(command, env=desktop.environ, capture_output=True, check=True)
    told = json.loads(done.stdout)
    return *told["seconds"], Counter((ROLES[role], name) for role, name in told["pairs"])


def ours(desktop: DesktopSession, pid: int) -> Ours:
    """Milliseconds of a first read without and with places and actions, each with a mirror of its own, and the tree."""
    with Accessibility(desktop.environ) as tree:
        session = tree.session()
        tree.run(session.apps())
        bare = milliseconds(lambda: tree.run(session.dump(pid, outlined=True)))
    with Accessibility(desktop.environ) as tree:
        session, told = tree.session(), {}
        tree.run(session.apps())
        full = milliseconds(lambda: told.update(tree.run(session.dump(pid))))
    return bare, full, told


def settled_turn(desktop: DesktopSession, pid: int) -> tuple[Ours, Theirs]:
    """One turn of each, again where the application has changed meanwhile, by two reads of ours.

    Firefox builds its own parts for a while, and Chromium puts the memory that a page takes into its tab's name:
    what has changed between two reads is no difference of the readers. One that stays counts as it is.
    """
    for _ in range(SETTLING):
        mine, their = ours(desktop, pid), theirs(desktop, pid)
        with Accessibility(desktop.environ) as tree:
            after = tree.run(tree.session().dump(pid))
        if pairs(after["tree"]) == pairs(mine[2]["tree"]):
            break
    return mine, their


def pairs(node: dict[str, Any]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    stack = [node]
    while stack:
        node = stack.pop()
        found[node.get("native", node["role"]), node.get("title", "")] += 1
        stack.extend(node["children"])
    return found


def spread(name: str, values: list[float], digits: int = 1) -> dict[str, float]:
    """The median, and the value that nine of ten don't exceed."""
    p90 = statistics.quantiles(values, n=10, method="inclusive")[-1]
    return {name: round(statistics.median(values), digits), f"{name}_p90": round(p90, digits)}


def find_milliseconds(desktop: DesktopSession, pid: int, name: str, limit: int) -> float:
    """A search for one button, in an application of which nothing was read."""
    with Accessibility(desktop.environ) as tree:
        session = tree.session()
        tree.run(session.apps())
        wanted = Selector(role="button", name=name)
        return milliseconds(lambda: tree.run(session.find(wanted, pid, limit)))


def measure(desktop: DesktopSession, toolkit: str, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of one toolkit: ours, and libatspi's."""
    pid = start(desktop, toolkit, rows)
    turns = [settled_turn(desktop, pid) for _ in range(TURNS)]
    dump = turns[-1][0][2]
    thousands = dump["count"] / 1000
    bare, full = [t[0][0] for t in turns], [t[0][1] for t in turns]
    cold, warm = (
        [1000 * seconds for seconds in times] for times in zip(*(t[1][:2] for t in turns), strict=True)
    )
    first, every = (
        [find_milliseconds(desktop, pid, "Build", limit) for _ in range(TURNS)] for limit in (1, 20)
    )
    figures = {
        "elements": dump["count"],
        "identical_turns": sum(pairs(mine[2]["tree"]) == their[2] for mine, their in turns),
        "turns": TURNS,
        **spread("tree_ms_per_1000", [each / thousands for each in bare]),
        **spread("full_ms_per_1000", [each / thousands for each in full]),
        "tree_ratio": round(statistics.median(cold) / statistics.median(bare), 1),
        "full_ratio": round(statistics.median(cold) / statistics.median(full), 1),
        **spread("find_ms", first),
        **spread("find_all_ms", every),
        **again(desktop, pid),
    }
    peer = {
        **spread("cold_ms_per_1000", [each / thousands for each in cold]),
        **spread("warm_ms_per_1000", [each / thousands for each in warm]),
    }
    return figures, peer


def again(desktop: DesktopSession, pid: int) -> dict[str, float]:
    """Dumps from a mirror that events keep current, of the same and of what has changed, and how large they are."""
    with X11(desktop.environ["DISPLAY"]) as x11, Accessibility(desktop.environ, x11) as tree:
        session = tree.session()
        text = tree.run(session.dump(pid, outlined=True))["outline"]
        interactive = tree.run(session.dump(pid, outlined=True, interactive_only=True))["outline"]
        whole = tree.run(session.dump(pid))["tree"]
        size = len(json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode())
        outlines = [milliseconds(lambda: tree.run(session.dump(pid, outlined=True))) for _ in range(AGAIN)]
        trees = [milliseconds(lambda: tree.run(session.dump(pid))) for _ in range(AGAIN)]
        changed = changed_milliseconds(desktop, tree, pid)
    return {
        **spread("redump_ms", outlines),
        **spread("retree_ms", trees),
        **spread("changed_ms", changed),
        "outline_percent": round(100 * len(text.encode()) / size, 2),
        "interactive_percent": round(100 * len(interactive.encode()) / size, 2),
    }


def changed_milliseconds(desktop: DesktopSession, tree: Accessibility, pid: int) -> list[float]:
    """Trees after a button was pressed that changes a label.

    That the label has changed is seen by another reader: this one has to read what its events have made stale.
    """
    session, times = tree.session(), []
    told: dict[str, Any] = {}
    tree.run(session.dump(pid))
    (button,) = tree.run(session.find(Selector(role="button", name="Count"), pid))["nodes"]
    with Accessibility(desktop.environ) as other:
        witness = other.session()
        for number in range(1, AGAIN + 1):
            tree.run(session.act(button["ref"], "AXPress"))
            label = f"counted {number}"
            other.run(witness.wait(Selector(text=label), target=pid, timeout=30))
            times.append(milliseconds(lambda: told.update(tree.run(session.dump(pid)))))
            if f'"{label}"' not in json.dumps(told["tree"]):
                raise AssertionError(f"the tree doesn't have {label!r}, which another reader saw")
    return times
