"""No file that a run writes holds a secret, in whatever form: the machine echoes it, in several, wherever it can."""

from __future__ import annotations

import base64
import html
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
import yaml
from PIL import Image
from tests.e2e.conftest import environment, start
from tests.played import ASKED, text

from reflexarc.machine.frame import Frame, pixels_of
from reflexarc.sensing.console.reader import ConsoleReader

SECRET = 'Pa"s\\w/7&+ <x>9'
ENCODED = base64.b64encode(SECRET.encode()).decode()
LEAK = [
    *ASKED[:-1],
    f"Password: {SECRET}",
    f"GET /login?p={quote(SECRET, safe='')}",
    json.dumps({"p": SECRET}),
    f"Authorization: {ENCODED}",
    "permission denied",
]
STEPS: list[dict[str, object]] = [
    {"name": "type", "wait_for": {"text": "^Password:$"}, "action": "type_text",
     "args": {"text": "{{ password }}", "enter": True}},
    {"name": "told", "wait_for": {"text": "denied"}, "register": "told"},
    {"name": "picture", "action": "screenshot", "register": "picture"},
    {"name": "note", "action": "note", "args": {"text": "it is {{ password }}"}},
    {"name": "never", "wait_for": {"text": "zzz"}, "timeout": 1},
]  # fmt: skip
PLAYBOOK: dict[str, object] = {
    "name": "leaks",
    "vars": {"password": {"secret": True}},
    "steps": STEPS,
}


def forms(secret: str) -> Iterator[bytes]:
    """What a scanner looks for."""
    raw = secret.encode()
    yield from (raw, raw[::-1], raw.hex().encode(), raw.hex().upper().encode())
    yield from (secret.encode("utf-16-le"), secret.encode("utf-16-be"))
    yield from (secret[::-1].encode("utf-16-le"), secret[::-1].encode("utf-16-be"))
    yield from (json.dumps(secret)[1:-1].encode(), json.dumps(json.dumps(secret))[1:-1].strip('\\"').encode())
    yield from (quote(secret, safe="").encode(), quote_plus(secret).encode(), html.escape(secret).encode())
    for shift in range(3):
        # Without the ends, which depend on what stands around it.
        yield base64.b64encode(b"\0" * shift + raw)[4:-4]
        yield base64.urlsafe_b64encode(b"\0" * shift + raw)[4:-4]


def pictures_read(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in folder.rglob("*"):
        if path.suffix in (".png", ".webp") and "recording" not in path.parts:
            with Image.open(path) as image:
                read = ConsoleReader().read(Frame(pixels_of(image), 0.0, 1))
            yield path, read.text if read else ""


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """A machine that shows and says what is typed at it, once Enter is pressed."""
    recording = tmp_path / "recording"
    recording.mkdir()
    for name, lines in (("asked", ASKED), ("leak", LEAK)):
        pixels = text(lines)
        rgb = pixels.astype("<u4").view("u1").reshape(*pixels.shape, 4)[..., 2::-1]
        Image.fromarray(rgb.copy()).save(recording / f"{name}.png")
    said = "\r\n".join([*LEAK, f"first \x1b[1m{SECRET[:6]}\x1b[0m{SECRET[6:]} then"])
    entries: list[dict[str, object]] = [
        {"at": 0, "frame": "asked.png", "power": "on", "serial": "Password: "},
        {"on": {"key": "enter"}, "frame": "leak.png", "serial": f"{said}\r\n"},
    ]
    (recording / "recording.jsonl").write_text("".join(json.dumps(line) + "\n" for line in entries))
    (tmp_path / "reflexarc.toml").write_text(
        '[machines.lab]\ndrivers = ["replay"]\nreplay = {recording = "recording", speed = 1.0}\n'
    )
    (tmp_path / "leaks.yaml").write_text(yaml.safe_dump(PLAYBOOK))
    return tmp_path


def test_no_form_of_a_secret_is_written(leaky: Path) -> None:
    given = environment(leaky, {"LAB_PASSWORD": SECRET})
    said = b""

    def command(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        nonlocal said
        process = subprocess.Popen(
            start(arguments), cwd=leaky, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        said += Path(f"/proc/{process.pid}/cmdline").read_bytes() if sys.platform == "linux" else b""
        out, err = process.communicate(timeout=60)
        said += out + err
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    done = command("run", "leaks.yaml", "-m", "lab", "--secret", "password=env:LAB_PASSWORD")
    assert done.returncode == 3, done.stderr
    held = json.loads(done.stdout)
    assert (held["step_name"], held["registered"]["picture"]["frame"], held["frame"]) == ("never", "", None)
    assert "permission denied" in held["text"]
    run = held["run_id"]
    assert command("runs", "report", run, "--html", "run.html", "--junit", "run.xml").returncode == 0
    assert command("runs", "show", run).returncode == 0
    assert command("runs", "show", run, "--json").returncode == 0
    assert command("runs", "abort", run, "--reason", "enough").returncode == 0
    written = [
        path
        for path in leaky.rglob("*")
        if path.is_file() and "recording" not in path.parts and path.suffix not in (".yaml", ".toml")
    ]
    names = {path.name for path in written}
    assert {"runs.sqlite", "audit.jsonl", "serial.txt", "run.html", "run.xml", "inventory"} <= names
    for form in forms(SECRET):
        assert form not in said, form
        for path in written:
            assert form not in path.read_bytes(), (path, form)
    kept = list(pictures_read(leaky / "state"))
    assert kept
    assert not [path for path, read in kept if "denied" in read]


def test_a_crash_leaves_no_secret_behind(leaky: Path) -> None:
    """Killed while it waits with the secret on the screen."""
    given = environment(leaky, {"LAB_PASSWORD": SECRET})
    steps = [*STEPS[:-1], {"name": "never", "wait_for": {"text": "zzz"}, "timeout": 600}]
    (leaky / "leaks.yaml").write_text(
        yaml.safe_dump({**PLAYBOOK, "on_unknown": "wait", "unknown_after": 3600, "steps": steps})
    )
    arguments = ["run", "leaks.yaml", "-m", "lab", "--secret", "password=env:LAB_PASSWORD"]
    with subprocess.Popen(
        start(arguments), cwd=leaky, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if b"note" in line:
                break
        os.kill(process.pid, signal.SIGKILL)
    written = [path for path in (leaky / "state").rglob("*") if path.is_file()]
    assert any(path.name == "runs.sqlite" for path in written)
    for form in forms(SECRET):
        for path in written:
            assert form not in path.read_bytes(), (path, form)
