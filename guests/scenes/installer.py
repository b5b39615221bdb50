"""Text-mode installers: the dialogs of debian-installer, and those that FAI shows with `dialog`."""

from __future__ import annotations

import time

from PIL import Image

from guests import linux, media
from guests.record import Recorder
from guests.truth import vga
from guests.vm import PATIENCE, Machine, same

# Questions of the installer that a netboot image without a mirror never reaches, put to its own dialog program.
_TEMPLATES = """Template: lab/partition-title
Type: title
Description: Partition disks

Template: lab/partition
Type: select
Choices: Guided - use entire disk, Guided - use entire disk and set up LVM, Manual
Description: Partitioning method:
 The installer can guide you through partitioning a disk (using different
 standard schemes) or, if you prefer, you can do it manually.

Template: lab/write
Type: boolean
Default: false
Description: Write the changes to disks?
 If you continue, the changes listed below will be written to the disks.

Template: lab/user-title
Type: title
Description: Set up users and passwords

Template: lab/password
Type: password
Description: Root password:
 You need to set a password for 'root', the system administrative account.

Template: lab/user
Type: string
Description: Full name for the new user:
 A user account will be created for you to use instead of the root account.

Template: lab/software-title
Type: title
Description: Software selection

Template: lab/software
Type: multiselect
Choices: Debian desktop environment, web server, SSH server, standard system utilities
Default: SSH server
Description: Choose software to install:

Template: lab/base
Type: text
Description: Installing the base system

Template: lab/base-step
Type: text
Description: Unpacking libc6...

Template: lab/software-progress
Type: text
Description: Select and install software

Template: lab/retrieving
Type: text
Description: Retrieving file 12 of 345

Template: lab/grub-title
Type: title
Description: Install the GRUB boot loader

Template: lab/grub
Type: boolean
Default: true
Description: Install the GRUB boot loader to your primary drive?
 It seems that this new installation is the only operating system on this computer.

Template: lab/error-title
Type: title
Description: Installation step failed

Template: lab/error
Type: error
Description: Installation step failed
 An installation step failed. You can try to run the failing item again from
 the menu, or skip it and choose something else.

Template: lab/finish-title
Type: title
Description: Finish the installation

Template: lab/finish
Type: note
Description: Installation complete
 Installation is complete, so it is time to boot into your new system. Make
 sure to remove the installation media, so that you boot into the new system
 rather than restarting the installation.
"""
# Each dialog shows until a key is pressed; a progress bar until the serial line is told.
_SHOW = """#!/bin/sh
. /usr/share/debconf/confmodule
db_x_loadtemplatefile /lab.templates lab
ask() { db_settitle lab/$1-title; db_fset lab/$2 seen false; db_input critical lab/$2; db_go || true; }
bar() {
    db_progress START 0 100 lab/$1; db_progress SET 42; db_progress INFO lab/$2
    read line </dev/ttyS1
    db_progress STOP
}
ask partition partition
ask partition write
ask user password
ask user user
bar base base-step
bar software-progress retrieving
ask software software
ask grub grub
ask error error
ask finish finish
"""
_PRESEED = "d-i preseed/early_command string sh /lab.sh\n"


# The questions in their order: name, phase, what its screen says, the keys that answer it.
_QUESTIONS = (
    ("partitioning", "installer_partitioning", "Partitioning method", ("ret",)),
    ("partitioning_write", "installer_partitioning", "Write the changes to disks", ("ret",)),
    ("password", "installer_user", "Root password", ("ret",)),
    ("user", "installer_user", "Full name for the new user", ("ret",)),
    ("base_system", "installer_progress", "Installing the base system", ()),
    ("software_progress", "installer_progress", "Select and install software", ()),
    ("software", None, "Choose software to install", ("tab", "ret")),
    ("grub", None, "GRUB boot loader to your primary drive", ("ret",)),
    ("error", "installer_error", "An installation step failed", ("ret",)),
    ("complete", "installer_complete", "Installation is complete", ("ret",)),
)
_CARD = ("-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,romfile=")
_GRAPHICAL = "vga=788 no_timer_check"
# Its banner, however wide the screen is.
_BANNER = (0, 0, 4096, 75)
# Where the graphical installer writes the title of a question.
_TITLE = (12, 84, 700, 106)
_TEXT = "vga=normal fb=false nomodeset no_timer_check"


def debian_installer(recorder: Recorder) -> None:
    with recorder.machine(*_installer(recorder, _TEXT, {})) as machine:
        for name, phase, said, keys in (
            ("language", "installer_language", "Choose the language", ("ret",)),
            ("location", "installer_welcome", "Select your location", ("ret",)),
            ("keyboard", "installer_keyboard", "Keymap to use", ("ret",)),
        ):
            recorder.until(machine, vga, said)
            machine.until_still()
            recorder.keep(machine, f"di_{name}", phase, vga)
            machine.keys(*keys)
        recorder.until(machine, vga, r"Detecting|Loading additional|Scanning|Configuring the network")
        recorder.keep(machine, "di_detecting", "installer_progress", vga)
        _network(recorder, machine)


def _network(recorder: Recorder, machine: Machine) -> None:
    recorder.until(machine, vga, "Name server addresses|enter the hostname")
    if "Name server" in "\n".join(vga(machine)):
        recorder.keep(machine, "di_name_servers", "installer_network", vga)
        machine.keys("ret")
        recorder.until(machine, vga, "enter the hostname")
    machine.until_still()
    recorder.keep(machine, "di_hostname", "installer_network", vga)
    machine.keys("ret")
    recorder.until(machine, vga, "Domain name:")
    machine.keys("ret")
    recorder.until(machine, vga, "Debian archive mirror country")
    machine.until_still()
    recorder.keep(machine, "di_mirror", "installer_network", vga)


def debian_installer_questions(recorder: Recorder) -> None:
    files = {"lab.templates": _TEMPLATES, "lab.sh": _SHOW, "preseed.cfg": _PRESEED}
    with recorder.machine(*_installer(recorder, _TEXT, files)) as machine:
        for name, phase, said, keys in _QUESTIONS:
            recorder.until(machine, vga, said)
            machine.until_still()
            recorder.keep(machine, f"di_{name}", phase, vga)
            if keys:
                machine.keys(*keys)
            else:
                machine.tell("go on")


def debian_installer_framebuffer(recorder: Recorder) -> None:
    """The terminal of the installer on a framebuffer keeps its text to itself, so there is none to judge by."""
    with recorder.machine(*_installer(recorder, "vga=788 no_timer_check", {})) as machine:
        for name, phase in (("language", "installer_language"), ("location", "installer_welcome")):
            _until_dialog(machine)
            recorder.keep(machine, f"di_framebuffer_{name}", phase)
            machine.keys("ret")
    files = {"lab.templates": _TEMPLATES, "lab.sh": _SHOW, "preseed.cfg": _PRESEED}
    with recorder.machine(*_installer(recorder, "vga=788 no_timer_check", files)) as machine:
        for name, phase, _, keys in _QUESTIONS[:5]:
            _until_dialog(machine)
            recorder.keep(machine, f"di_framebuffer_{name}", phase)
            machine.keys(*keys)


def debian_installer_graphical(recorder: Recorder) -> None:
    """The graphical installer: its questions differ by their titles, below a banner."""
    with recorder.machine(*_installer(recorder, _GRAPHICAL, {}, "gtk")) as machine:
        machine.until_colours(64)
        machine.until_still(seconds=1)
        recorder.keep(machine, "di_graphical_start", None, hidden=_BANNER)
        shown = _until_page(machine, None)
        recorder.keep(machine, "di_graphical_language", "installer_language", hidden=_BANNER)
        machine.keys("ret")
        shown = _until_page(machine, shown)
        recorder.keep(machine, "di_graphical_location", "installer_welcome", hidden=_BANNER)
        machine.keys("ret")
        between = machine.until_still(seconds=2)
        if not _is_drawn(between):
            # The title stays while the installer works towards its next question.
            recorder.keep(machine, "di_graphical_between", None, hidden=_BANNER)
        _until_page(machine, shown)
        recorder.keep(machine, "di_graphical_keyboard", "installer_keyboard", hidden=_BANNER)


def debian_installer_graphical_questions(recorder: Recorder) -> None:
    """The same questions as in text; here the installer asks them in the place of its first one."""
    files = {"lab.templates": _TEMPLATES, "lib/main-menu.d/99lab": _SHOW}
    with recorder.machine(*_installer(recorder, _GRAPHICAL, files, "gtk")) as machine:
        page: Image.Image | None = None
        for question, expected, _, keys in _QUESTIONS:
            page = _until_page(machine, page)
            recorder.keep(machine, f"di_graphical_{question}", expected, hidden=_BANNER)
            if keys:
                machine.keys(*keys)
            else:
                machine.tell("go on")


def _until_page(machine: Machine, before: Image.Image | None) -> Image.Image:
    """Wait until a titled page other than the one before stands still, and return its picture."""
    deadline = time.monotonic() + 2 * PATIENCE
    while True:
        page = machine.until_still(seconds=2)
        if _is_drawn(page) and (before is None or not same(before, page)):
            return page
        if time.monotonic() > deadline:
            raise TimeoutError("no new page came")


def _is_drawn(page: Image.Image) -> bool:
    """Tell whether there is a title, and below it more than the pointer."""
    below = (0, _TITLE[3], *page.size)
    return all(len(page.crop(part).getcolors(1 << 24) or ()) > 16 for part in (_TITLE, below))


def _until_dialog(machine: Machine) -> None:
    """Wait for a dialog; the text of a starting kernel has fewer colours."""
    machine.until_still(seconds=3)
    machine.until_colours(4)
    machine.until_still(seconds=3)


def _installer(
    recorder: Recorder, options: str, files: dict[str, str], kind: str = "text"
) -> tuple[str, ...]:
    image = media.INSTALLER / kind / "debian-installer/amd64"
    initrd = image / "initrd.gz"
    if files:
        initrd = linux.with_files(initrd, files, recorder.folder())
    loaded = ("-kernel", str(image / "linux"), "-initrd", str(initrd), "-append", options)
    return ("-m", "1536", *_CARD, *loaded)


SCENES = (
    debian_installer, debian_installer_questions, debian_installer_framebuffer, debian_installer_graphical,
    debian_installer_graphical_questions,
)  # fmt: skip
