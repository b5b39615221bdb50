"""Waiting for a change of a real application, and typing into one."""

from __future__ import annotations

import random
import statistics
import time
import unicodedata

from guests.desktop.session import DesktopSession

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.selecting import Selector
from reflexarc_agent.backends.linux.x11.devices import X11

WAITS, TEXTS, CHARACTERS = 30, 20, 60
SHOWN = ("Ll", "Lu", "Lo", "Nd", "Sm", "Sc", "Po")


def waits(desktop: DesktopSession) -> dict[str, float]:
    """Milliseconds between the moment the application changes and the answer of a wait."""
    process = desktop.app("gtk3", "50")
    late = []
    with Accessibility(desktop.environ) as tree:
        session = tree.session()
        tree.run(session.wait(Selector(name="Build"), target=process.pid, timeout=30))
        for number in range(1, WAITS + 1):
            (later,) = tree.run(session.find(Selector(name="Later"), process.pid))["nodes"]
            tree.run(session.act(later["ref"], "AXPress"))
            tree.run(session.wait(Selector(name=f"done {number}"), target=process.pid))
            answered = time.monotonic()
            changed = float(desktop.logs[process.pid].read_text().split()[number - 1])
            late.append((answered - changed) * 1000)
    desktop.end(process)
    return {
        "p50_ms": round(statistics.median(late), 1),
        "p90_ms": round(statistics.quantiles(late, n=10)[-1], 1),
    }


def typing_mistakes(desktop: DesktopSession) -> dict[str, float]:
    """Random characters typed into a real field, read back through the accessibility tree."""
    process = desktop.app("gtk3")
    wrong, seconds = 0, []
    with X11(desktop.environ["DISPLAY"]) as x11, Accessibility(desktop.environ, x11) as tree:
        session = tree.session()
        entry = tree.run(session.wait(Selector(name="Name"), target=process.pid, timeout=30))["node"]["ref"]
        for seed in range(TEXTS):
            text = random_text(seed)
            tree.run(session.set_value(entry, ""))
            tree.run(session.focus(entry))
            began = time.perf_counter()
            x11.type(text)
            held = ""
            while len(held) < len(text) and time.perf_counter() < began + 5:
                held = (
                    tree.run(session.find(Selector(name="Name"), process.pid))["nodes"][0].get("value") or ""
                )
            seconds.append(time.perf_counter() - began)
            wrong += sum(a != b for a, b in zip(held, text, strict=False)) + abs(len(held) - len(text))
    desktop.end(process)
    each = 1000 * statistics.median(seconds) / CHARACTERS
    return {"typed": TEXTS * CHARACTERS, "wrong": wrong, "ms_per_character": round(each, 1)}


def random_text(seed: int) -> str:
    """Characters of the basic plane that show and don't combine."""
    chosen, generator = "", random.Random(seed)
    while len(chosen) < CHARACTERS:
        character = chr(generator.randrange(0x21, 0xFB1D))
        if unicodedata.category(character) in SHOWN:
            chosen += character
    return chosen
