"""A played machine: firmware, boot menu, login, shell, off; in memory or as a recording on disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image
from tests.unit.sensing.render import VGA, Console

from reflexarc.drivers.replay.driver import ReplayCapabilities, open_replay
from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Pixels
from reflexarc.machine.guard import Guard
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy
from reflexarc.runs.journal import Journal
from reflexarc.runs.session import Session
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher

PASSWORD = "open sesame 7"
POST = ["SeaBIOS (version 1.16.2-debian-1.16.2-1)", "", "Booting from DVD/CD..."]
MENU = ("Debian GNU/Linux (serial console)", "Debian GNU/Linux")
BOOT = [f"[    {n}.000000] Linux version 6.1.0-57-cloud-amd64" for n in range(8)]
BANNER = ["Debian GNU/Linux 12 lab tty1", ""]
LOGIN = [*BANNER, "lab login:"]
ASKED = [*BANNER, "lab login: root", "Password:"]
SHELL = [*ASKED, "root@lab:~#"]
ANSWERED = [*ASKED, "root@lab:~# uname -r", "6.1.0-57-cloud-amd64", "root@lab:~#"]
PANIC = [
    "[    4.1] Kernel panic - not syncing: VFS: Unable to mount root fs",
    "[    4.2] CPU: 0 PID: 1 Comm: swapper/0 Not tainted 6.1.0-57-cloud-amd64 #1",
    "[    4.3] ---[ end Kernel panic - not syncing: VFS: Unable to mount ]---",
]


def menu(selected: int) -> Pixels:
    lines = ["", "                       GNU GRUB  version 2.06-13+deb12u2", ""]
    lines.append(" ┌" + "─" * 76 + "┐")
    lines += [f" │{('*' if i == selected else ' ') + entry:76}│" for i, entry in enumerate(MENU)]
    lines += [" │" + " " * 76 + "│"] * 9
    lines.append(" └" + "─" * 76 + "┘")
    lines += [
        "",
        "      Use the ↑ and ↓ keys to select which entry is highlighted.",
        "      Press enter to boot the selected OS, `e' to edit the commands",
        "      before booting or `c' for a command-line.",
    ]
    row = 4 + selected
    return Console(inverted=frozenset((row, column) for column in range(2, 78))).pixels(lines)


def text(lines: Sequence[str]) -> Pixels:
    last = len(lines) - 1
    return VGA.pixels(lines, cursor=(last, min(79, len(lines[last]) + 1)))


def script(*, panics: bool = False, **more: object) -> ReplayScript:
    """The machine; `panics` makes its boot end in a kernel panic, until it is reset."""
    boots = [Entry(0.0, text(POST)), Entry(0.2, menu(0))]
    up = [Entry(0.0, text(BOOT)), Entry(0.3, text(LOGIN))]
    crash = [Entry(0.0, text(BOOT)), Entry(0.3, text(PANIC))]
    enters = ([crash, up] if panics else [up]) + [
        [Entry(0.02, text(ASKED))],
        [Entry(0.02, text(SHELL))],
        [Entry(0.02, text(ANSWERED))],
    ]
    reactions = [
        Reaction(tuple(boots), operation="power.on"),
        Reaction(tuple(boots), operation="power.reset"),
        *(Reaction((Entry(0.02, menu(1)),), key="down") for _ in range(2)),
        *(Reaction(tuple(entries), key="enter") for entries in enters),
    ]
    base = ReplayScript(reactions=tuple(reactions), power=PowerState.OFF, speed=1.0)
    return replace(base, **more)  # type: ignore[arg-type]


STEPS: list[dict[str, object]] = [
    {"name": "on", "wait_for": "power_off", "action": "power_on"},
    {
        "name": "second entry",
        "wait_for": "grub_menu",
        "action": "press_key",
        "args": {"key": "down"},
        "expect": {"text": "Debian GNU/Linux$", "highlighted": True},
    },
    {"name": "boot", "action": "press_key", "args": {"key": "enter"}},
    {
        "name": "user",
        "wait_for": "login_prompt",
        "action": "type_text",
        "args": {"text": "root", "enter": True},
    },
    {
        "name": "password",
        "wait_for": {"text": "^Password:$"},
        "action": "type_text",
        "args": {"text": "{{ password }}", "enter": True},
    },
    {
        "name": "ask",
        "wait_for": "shell_prompt",
        "action": "type_text",
        "args": {"text": "uname -r", "enter": True},
    },
    {
        "name": "answer",
        "wait_for": {"all": ["shell_prompt", {"text": r"^(\d+\.\d+\.\S+)$"}]},
        "register": "kernel",
    },
    {"name": "down", "wait_for": "shell_prompt", "action": "shutdown", "destructive": True},
    {"name": "off", "wait_for": "power_off"},
]
PLAYBOOK: dict[str, object] = {
    "name": "played",
    "vars": {"password": {"secret": True}},
    "authorize": {"destructive": True, "ops": ["power.shutdown", "power.reset"]},
    "steps": STEPS,
}


@dataclass
class Lab:
    """A session on a played machine, and the machine's own account of what it was sent."""

    session: Session
    machine: ReplayCapabilities
    state: Path

    def sent(self) -> list[str]:
        """Operations and keys going down, in order."""
        return [
            f"{sent.operation}{':' if sent.detail else ''}{sent.detail}"
            for sent in self.machine.sent
            if sent.operation != "key.up"
        ]


@asynccontextmanager
async def lab(
    state: Path,
    played: ReplayScript | None = None,
    *,
    grant: Sequence[str] = (),
    people: Sequence[str] = ("*",),
    host: HostPaths | None = None,
) -> AsyncIterator[Lab]:
    """Open the played machine with its journal and runs under `state`."""
    lent = open_replay(played or script(), machine="lab")
    recognisers = load_recognisers()
    guard = Guard("lab", Policy(people=tuple(people)), granted=tuple(grant))
    machine = Machine("lab", lent, guard)
    lock = MachineLock(state / "lab.lock", "lab", "a test")
    journal = Journal(state / "runs.sqlite")

    async def at_end(run_id: str) -> None:
        await asyncio.sleep(0)

    try:
        async with Watcher(machine.sensed, Ladder(recognisers), "lab") as watcher:
            yield Lab(
                Session(
                    machine,
                    watcher,
                    journal,
                    recognisers.phases,
                    state / "runs",
                    lock,
                    at_end,
                    lambda run_id: None,
                    host=host or HostPaths(),
                ),
                lent,
                state,
            )
    finally:
        lock.release()
        journal.close()


def write_recording(folder: Path) -> Path:
    """The played machine as a recording on disk, and an inventory that has it as `lab`."""
    recording = folder / "recording"
    recording.mkdir(parents=True)
    lines = []
    count = 0
    for reaction in script().reactions:
        then = []
        for entry in reaction.entries:
            count += 1
            assert entry.frame is not None
            assert not isinstance(entry.frame, Path)
            rgb = entry.frame.astype("<u4").view("u1").reshape(*entry.frame.shape, 4)[..., 2::-1]
            Image.fromarray(rgb.copy()).save(recording / f"{count}.png")
            then.append({"at": entry.at, "frame": f"{count}.png"})
        on = {"key": reaction.key} if reaction.key else {"operation": reaction.operation}
        lines.append(json.dumps({"on": on, "then": then}))
    start = json.dumps({"at": 0, "power": "off"})
    (recording / "recording.jsonl").write_text("\n".join([start, *lines]) + "\n")
    inventory = folder / "reflexarc.toml"
    inventory.write_text(
        '[machines.lab]\ndrivers = ["replay"]\nreplay = {recording = "recording", speed = 1.0}\n'
    )
    return inventory
