"""The demo's guest, built from Debian's packages and booted in QEMU; what it shows is read from its VGA memory."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reflexarc.demo.guest import build_iso
from reflexarc.errors import ConfigError

PASSWORD = "Demo-42"
KEYS = {"-": "minus", " ": "spc", "\n": "ret"}

# Emulated CPUs on a busy host: seconds become minutes.
pytestmark = [pytest.mark.guest, pytest.mark.timeout(300)]


class Guest:
    """A QEMU with the image, seen from outside: QMP, VGA memory, the serial log."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.folder = folder
        monitor = folder / "qmp"
        self.process = subprocess.Popen(
            [
                "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-shutdown", "-accel", "tcg",
                "-machine", "q35", "-m", "512", "-vga", "std", "-display", "none", "-cdrom", str(image),
                "-serial", f"file:{folder / 'serial'}", "-qmp", f"unix:{monitor},server=on,wait=off",
            ]
        )  # fmt: skip
        self.link = socket.socket(socket.AF_UNIX)
        poll(lambda: self.link.connect_ex(str(monitor)) == 0, "QMP")
        self.qmp = self.link.makefile("rw")
        self.qmp.readline()
        self.execute("qmp_capabilities")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.qmp.close()
        self.link.close()

    def execute(self, command: str, **arguments: object) -> object:
        self.qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.qmp.flush()
        answer = json.loads(self.qmp.readline())
        while "event" in answer:
            answer = json.loads(self.qmp.readline())
        assert "error" not in answer, answer
        return answer["return"]

    def status(self) -> str:
        answer = self.execute("query-status")
        assert isinstance(answer, dict)
        return str(answer["status"])

    def rows(self) -> list[str]:
        """Every row of the VGA's text memory, what has scrolled off the screen included."""
        dump = self.folder / "vga"
        self.execute("pmemsave", val=0xB8000, size=0x8000, filename=str(dump))
        cells = dump.read_bytes()[::2].decode("cp437")
        return [cells[start : start + 80].rstrip(" \0") for start in range(0, len(cells), 80)]

    def await_row(self, pattern: str) -> None:
        poll(lambda: any(re.fullmatch(pattern, row) for row in self.rows()), pattern, self.rows)

    def serial(self) -> str:
        return (self.folder / "serial").read_text(errors="replace")

    def press(self, *qcodes: str) -> None:
        keys = [{"type": "qcode", "data": qcode} for qcode in qcodes]
        for down in (True, False):
            events = [{"type": "key", "data": {"down": down, "key": key}} for key in keys]
            self.execute("input-send-event", events=events)

    def enter(self, text: str) -> None:
        for character in text + "\n":
            shift = ["shift"] if character.isupper() else []
            self.press(*shift, KEYS.get(character, character.lower()))

    def choose(self, entry: int, title: str) -> None:
        self.await_row(r".*before booting or `c' for a command-line\..*")
        for _ in range(entry):
            self.press("down")
        self.await_row(rf" .\*{re.escape(title)} *.")
        self.press("ret")

    def log_in(self) -> None:
        self.await_row("reflexarc-demo login:")
        self.enter("root")
        self.await_row("Password:")
        self.enter(PASSWORD)
        self.await_row(r"root@reflexarc-demo:~#")


def poll(
    reached: Callable[[], bool], what: str, shown: Callable[[], object] = str, timeout: float = 240
) -> None:
    deadline = time.monotonic() + timeout
    while not reached():
        assert time.monotonic() < deadline, f"{what!r} did not come; there is {shown()}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_iso(
        tmp_path_factory.mktemp("demo") / "demo.iso", lambda doing, share: None, password=PASSWORD
    )


@pytest.fixture
def guest(image: Path, tmp_path: Path) -> Iterator[Guest]:
    started = Guest(image, tmp_path)
    yield started
    started.close()


def test_from_menu_to_shell_and_off_by_the_power_button(guest: Guest) -> None:
    guest.choose(1, "Debian GNU/Linux")
    guest.log_in()
    assert any(row.startswith("Linux reflexarc-demo 6.") for row in guest.rows())
    guest.enter("uname -r")
    guest.await_row(r"\d+\.\d+\.\d+.*-cloud-amd64")
    assert "Run /init as init process" in guest.serial()
    assert guest.status() == "running"
    guest.execute("system_powerdown")
    poll(lambda: guest.status() == "shutdown", "the power to go off", guest.rows)
    assert "reboot: Power down" in guest.serial()


def test_a_wrong_password_is_refused_and_reboot_leads_back_to_the_menu(guest: Guest) -> None:
    guest.choose(1, "Debian GNU/Linux")
    guest.await_row("reflexarc-demo login:")
    guest.enter("root")
    guest.await_row("Password:")
    guest.enter("wrong")
    guest.await_row("Login incorrect")
    guest.enter("root")
    poll(lambda: guest.rows().count("Password:") == 2, "a second question", guest.rows)
    guest.enter(PASSWORD)
    guest.await_row(r"root@reflexarc-demo:~#")
    guest.enter("reboot")
    guest.choose(0, "Debian GNU/Linux (serial console)")


def test_the_serial_entry_has_its_kernel_text_and_login_on_the_serial_line(guest: Guest) -> None:
    guest.choose(0, "Debian GNU/Linux (serial console)")
    poll(lambda: "reflexarc-demo login: " in guest.serial(), "a serial login", guest.serial)
    assert not any("Linux version" in row for row in guest.rows())


def test_a_missing_root_ends_in_a_kernel_panic(guest: Guest) -> None:
    guest.choose(2, "Debian GNU/Linux, with a missing root")
    guest.await_row(r".*end Kernel panic - not syncing: VFS: Unable to mount root fs.*")
    assert "Unable to mount root fs" in guest.serial()


def test_an_image_that_is_up_to_date_is_left_alone(image: Path) -> None:
    before = image.stat()
    done: list[str] = []
    build_iso(image, lambda doing, share: done.append(doing), password=PASSWORD)
    assert image.stat() == before
    assert not any("download" in doing for doing in done)
    assert image.stat().st_size < 60_000_000
    assert [path.name for path in image.parent.iterdir()] == ["demo.iso"]


@pytest.mark.parametrize("password", ["", "two\nlines", "x" * 65, "pässword"])
def test_a_password_that_cannot_be_typed_is_refused(tmp_path: Path, password: str) -> None:
    with pytest.raises(ConfigError, match="1 to 64 printable ASCII"):
        build_iso(tmp_path / "demo.iso", lambda doing, share: None, password=password)


def test_missing_tools_are_named_by_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-get").symlink_to("/usr/bin/apt-get")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"apt-get install .*xorriso grub-common mtools"):
        build_iso(tmp_path / "demo.iso", lambda doing, share: None, password=PASSWORD)


def test_without_apt_it_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"Debian 12 or 13 with apt, .*xorriso"):
        build_iso(tmp_path / "demo.iso", lambda doing, share: None, password=PASSWORD)


def test_a_download_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "apt.conf"
    settings.write_text(f'Dir::State::lists "{tmp_path}";\n')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    with pytest.raises(ConfigError, match=r"apt-get update"):
        build_iso(tmp_path / "demo.iso", lambda doing, share: None, password=PASSWORD)
    assert not (tmp_path / "demo.iso").exists()
