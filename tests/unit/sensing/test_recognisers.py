"""The shipped recognisers on texts: what they name, what is complete, and what must not deceive them."""

from __future__ import annotations

import pytest
from tests.unit.sensing.render import EFI, FRAMEBUFFER, GRAPHICAL_GRUB, VGA, Console, grub_menu

from reflexarc.machine.frame import Frame
from reflexarc.observation import Observation
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers

RECOGNISERS = load_recognisers()

KERNEL = "[   12.345678] usb 1-1: new high-speed USB device number 2 using ehci-pci"
WRAPPED = "[   12.345678] " + "x" * 65
PANIC = "[    2.969969] ---[ end Kernel panic - not syncing: VFS ]---"


def observe(frame: Frame) -> Observation:
    return Ladder(RECOGNISERS).read(Readings(at=1.0, frame=frame))


def shows(*lines: str, console: Console = VGA) -> Observation:
    return observe(console.frame(lines))


TOKENS = [
    "power_off", "no_signal", "blank", "post_screen", "bios_menu", "boot_device_menu", "uefi_shell",
    "pxe_boot", "no_boot_device", "grub_menu", "grub_edit", "grub_cmdline", "grub_rescue", "pxe_shell",
    "memtest", "booting", "disk_unlock", "installer_welcome", "installer_language", "installer_keyboard",
    "installer_network", "installer_partitioning", "installer_user", "installer_summary",
    "installer_progress", "installer_complete", "installer_error", "first_boot_setup", "login_prompt",
    "shell_prompt", "rescue_shell", "graphical_login", "screen_locked", "desktop", "os_running",
    "crash_screen", "unknown",
]  # fmt: skip


def test_all_tokens_are_declared_with_their_families_and_kinds() -> None:
    phases = RECOGNISERS.phases
    assert sorted(phases) == sorted(TOKENS)
    assert {name for name in phases if phases[name].passing} == {
        "post_screen", "booting", "blank", "no_signal", "pxe_boot", "installer_progress",
    }  # fmt: skip
    assert {name for name in phases if phases[name].alarm} == {
        "crash_screen", "grub_rescue", "no_boot_device", "installer_error", "rescue_shell",
    }  # fmt: skip
    assert phases.is_a("installer_keyboard", "installer_welcome")
    assert phases.is_a("installer_language", "installer_welcome")
    assert phases["installer_complete"].usual_max == 7200
    assert phases["installer_progress"].usual_max == 3600
    assert phases["grub_menu"].usual_max == 300


@pytest.mark.parametrize(
    ("phase", "lines"),
    [
        ("post_screen", ["SeaBIOS (version 1.16.2-debian-1.16.2-1)"]),
        ("post_screen", ["SeaBIOS (version 1.16.2)", "", "iPXE (http://ipxe.org) 00:03.0 CA00 PCI2.10"]),
        ("booting", ["SeaBIOS (version 1.16.2)", "Booting from Hard Disk..."]),
        ("booting", ["Booting from Hard Disk...", "GRUB loading."]),
        ("boot_device_menu", ["SeaBIOS (version 1.16.2)", "", "Select boot device:", "", "1. Virtio disk", "2. DVD"]),
        ("no_boot_device", ["SeaBIOS (version 1.16.2)", "Booting from Hard Disk...", "No bootable device."]),
        ("no_boot_device", ["No bootable device.  Retrying in 60 seconds."]),
        ("pxe_boot", ["iPXE initialising devices...ok", "net0: 52:54:00:12:34:56 using 82540em on 0000:00:03.0"]),
        ("pxe_shell", ["iPXE 1.0.0+ -- Open Source Network Boot Firmware", "iPXE>"]),
        ("grub_rescue", ["error: no such device: 1234.", "Entering rescue mode...", "grub rescue>"]),
        ("grub_cmdline", ["  GNU GRUB  version 2.06", "  Minimal BASH-like line editing is supported.", "grub>"]),
        ("grub_edit", ["  GNU GRUB  version 2.06", "   Minimum Emacs-like screen editing is supported. TAB lists",
                       "   completions. Press Ctrl-x or F10 to boot, Ctrl-c or F2 for a",
                       "   command-line or ESC to discard edits and return to the GRUB menu."]),
        ("booting", [KERNEL, KERNEL]),
        ("booting", ["[  OK  ] Started Journal Service.", "         Starting Flush Journal to Persistent Storage..."]),
        ("booting", ["Begin: Running /scripts/local-block ... done."]),
        ("crash_screen", [KERNEL, PANIC]),
        ("crash_screen", [PANIC, KERNEL, KERNEL]),
        ("rescue_shell", ["ALERT!  /dev/vda1 does not exist.  Dropping to a shell!", "(initramfs)"]),
        ("rescue_shell", ["You are in emergency mode. After logging in, type \"journalctl -xb\" to view",
                          "Give root password for maintenance", "(or press Control-D to continue):"]),
        ("login_prompt", ["Debian GNU/Linux 12 host tty1", "", "host login:"]),
        ("login_prompt", ["Debian GNU/Linux 12 host tty1", "", "host login:", KERNEL]),
        ("login_prompt", ["host login:", WRAPPED, "the rest of that message"]),
        ("login_prompt", ["host login: " + KERNEL[:60], KERNEL]),
        ("shell_prompt", ["root@host:~#"]),
        ("shell_prompt", ["user@host:/var/log$"]),
        ("shell_prompt", ["[root@host ~]#"]),
        ("shell_prompt", ["sh-5.2#"]),
        ("shell_prompt", ["bash-5.2$"]),
        ("shell_prompt", ["~ #"]),
        ("shell_prompt", ["#"]),
        ("shell_prompt", ["susetest:~ #"]),
        ("shell_prompt", [KERNEL, KERNEL, "root@host:~#"]),
        ("shell_prompt", ["root@host:~# dmesg | grep panic", PANIC, "root@host:~#"]),
        ("shell_prompt", ["root@host:~# cat /boot/grub.txt", "   GNU GRUB  version 2.06-13", "root@host:~#"]),
        ("disk_unlock", ["Please enter passphrase for disk luks-1: (press TAB for no echo)"]),
        ("grub_menu", ["  Boot menu", " Live (amd64)", "  Automatic boot in 9 seconds..."]),
        ("grub_menu", ["Boot menu", "Install", "Press ENTER to boot or TAB to edit a menu entry"]),
        ("installer_keyboard", ["", "  Keyboard configuration" + " " * 20 + "[ Help ]", "", "    [ Done       ]"]),
        ("installer_partitioning", ["", "  Guided storage configuration" + " " * 20 + "[ Help ]", "    [ Done ]"]),
        ("installer_complete", ["", "  Install complete!" + " " * 20 + "[ Help ]", "", "    [ Reboot Now ]"]),
        ("uefi_shell", ["UEFI Interactive Shell v2.2", "EDK II", "Shell>"]),
        ("memtest", ["      Memtest86+ v6.10      | QEMU", "CLK/Temp: 3755MHz  | Pass   %"]),
        ("no_signal", ["", "", "        Guest has not initialized the display (yet)."]),
    ],
)  # fmt: skip
def test_texts_are_recognised(phase: str, lines: list[str]) -> None:
    observation = shows(*lines)
    assert observation.phase == phase
    assert observation.confidence >= 0.8


@pytest.mark.parametrize(
    ("phase", "lines"),
    [
        ("login_prompt", ["host login: root"]),
        ("login_prompt", ["host login: root", "Password:"]),
        ("login_prompt", ["Last login: Mon Nov 30 12:00:00 on tty1"]),
        ("login_prompt", ["host login:", "[   99.000001] reboot: Power down"]),
        ("shell_prompt", ["root@host:~# reboot"]),
        ("shell_prompt", ["root@host:~#", "[   99.000001] reboot: Restarting system"]),
        ("shell_prompt", ["the price is 100 #"]),
        ("shell_prompt", ["Shell> # nothing"]),
        ("booting", ["user@host:~$ sudo dmesg", KERNEL, KERNEL]),
        ("booting", ["host login: root", KERNEL, KERNEL]),
        ("grub_menu", ["user@host:~$ cat grub.txt", "  GNU GRUB  version 2.06-13", "user@host:~$"]),
        ("grub_menu", [KERNEL, "  GNU GRUB  version 2.06-13", " ┌────────────────────────┐"]),
        ("installer_language", ["Select a language", "root@host:~#"]),
        ("installer_language", ["Select a language"]),
        ("installer_keyboard", ["root@host:~# cat notes", "Keyboard configuration", "  [ Done ]"]),
        ("grub_menu", ["root@host:~# cat log", "Automatic boot in 9 seconds...", "root@host:~#"]),
        ("no_signal", ["$ cat note", "Guest has not initialized the display (yet)."]),
        ("crash_screen", ["host# grep panic log", "Kernel panic - not syncing", "root@host:~#"]),
    ],
)
def test_texts_that_only_resemble_are_not(phase: str, lines: list[str]) -> None:
    assert shows(*lines).phase != phase


def test_the_whole_grub_menu_is_complete() -> None:
    observation = observe(grub_menu())
    assert (observation.phase, observation.complete, observation.rung) == ("grub_menu", True, "text")
    assert observation.screen is not None
    assert observation.screen.highlighted == ((4, 2, "*Debian GNU/Linux"),)


@pytest.mark.parametrize(
    "missing",
    [{"help_lines": False}, {"highlight": False}, {"frame": False, "highlight": False}],
    ids=lambda missing: "+".join(missing),
)
def test_a_half_drawn_grub_menu_is_not_complete(missing: dict[str, bool]) -> None:
    assert not observe(grub_menu(**missing)).complete


def test_the_title_of_grub_alone_is_only_a_guess() -> None:
    observation = observe(grub_menu(frame=False, help_lines=False, highlight=False))
    assert (observation.phase, observation.guess, observation.complete) == ("unknown", "grub_menu", False)
    assert 0 < observation.confidence < 0.8


def test_words_about_a_missing_signal_are_no_word_of_the_signal_rung() -> None:
    observation = shows("", "   Display output is not active.", console=GRAPHICAL_GRUB)
    assert (observation.phase, observation.rung, observation.origin) == ("no_signal", "text", "text")


def test_setup_menus_of_edk2_need_their_help_lines_and_a_highlight() -> None:
    selected = Console(
        font="8x19-efi", cell=(8, 19), size=(640, 480), origin=(0, 2),
        inverted=frozenset((3, column) for column in range(3, 30)),
    )  # fmt: skip
    lines = [
        "  Device Manager",
        "",
        "",
        "   Secure Boot Configuration   ",
        "↑↓=Move Highlight   <Enter>=Select Entry",
    ]
    observation = observe(selected.frame(lines))
    assert (observation.phase, observation.complete) == ("bios_menu", True)
    assert not shows(*lines, console=EFI).complete


def test_recognition_works_on_the_framebuffer_too() -> None:
    assert (
        shows("Debian GNU/Linux 12 host tty1", "", "host login:", console=FRAMEBUFFER).phase == "login_prompt"
    )


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        ("login_prompt", "\x1b[H\x1b[2JDebian GNU/Linux 12 host ttyS0\r\n\r\nhost login: "),
        ("shell_prompt", "host login: root\r\nPassword: \r\n\x1b]0;root@host: ~\x07root@host:~# "),
        ("crash_screen", PANIC + "\r\n"),
        ("booting", "[    0.000000] Linux version 6.1.0\r\n"),
    ],
)
def test_serial_text_is_recognised_where_there_is_no_screen(phase: str, text: str) -> None:
    observation = Ladder(RECOGNISERS).read(Readings(at=5.0, serial=text, serial_end=len(text)))
    assert (observation.phase, observation.rung, observation.serial_end) == (phase, "serial", len(text))
    assert "\x1b" not in observation.serial


def test_serial_text_does_not_overrule_a_screen() -> None:
    evidence = Readings(
        at=5.0, frame=VGA.frame(["SeaBIOS (version 1.16.2)"]), serial="host login: ", serial_end=12
    )
    assert Ladder(RECOGNISERS).read(evidence).phase == "post_screen"
