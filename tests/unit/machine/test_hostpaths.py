"""Which files of this host a playbook may name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflexarc.errors import SafetyError
from reflexarc.machine.hostpaths import HostPaths, open_confined, settled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images beside a file that is none of theirs."""
    root = tmp_path / "iso"
    (root / "sub").mkdir(parents=True)
    (root / "debian.iso").write_bytes(b"debian")
    (root / "sub/fedora.iso").write_bytes(b"fedora")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "iso-too").mkdir()
    (tmp_path / "iso-too/x.iso").write_bytes(b"x")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to(tmp_path)
    (root / "in.iso").symlink_to(root / "debian.iso")
    os.mkfifo(root / "pipe")
    return root


INSIDE = [
    "debian.iso",
    "sub/fedora.iso",
    "sub/../debian.iso",
    "./sub/./fedora.iso",
    "in.iso",
    "up/iso/debian.iso",
]
OUTSIDE = [
    "", ".", "..", "sub", "gone.iso", "../secret", "out", "up/secret", "sub/../../secret", "../iso-too/x.iso",
    "pipe", "/etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/zero", "/dev/stdin",
    "/proc/self/fd/0", "/sys/power/state", "debian.iso\0", "debian.iso/..", "file:///etc/passwd",
    "\0", "~/.bashrc",
]  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_a_plain_file_inside_is_the_file_that_links_lead_to(folder: Path, name: str) -> None:
    found = HostPaths(media=(str(folder),)).image(name, typed=False)
    assert found in (str(folder / "debian.iso"), str(folder / "sub/fedora.iso"))
    assert HostPaths(media=(str(folder),)).image(str(folder / name), typed=False) == found


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_else_is_an_image_or_a_source(folder: Path, name: str) -> None:
    host = HostPaths(media=(str(folder),), exchange=folder)
    with pytest.raises(SafetyError) as caught:
        host.image(name, typed=False)
    assert caught.value.rule == "host_path"
    with pytest.raises(SafetyError):
        host.open_source(name, typed=False)


def test_without_folders_there_is_nothing(folder: Path) -> None:
    for refused in (
        lambda: HostPaths().image(str(folder / "debian.iso"), typed=False),
        lambda: HostPaths().open_source(str(folder / "debian.iso"), typed=False),
        lambda: HostPaths().target("x", typed=False),
        lambda: HostPaths(exchange=folder / "gone").target("x", typed=False),
    ):
        with pytest.raises(SafetyError, match="inventory"):
            refused()


def test_what_is_opened_is_what_was_checked(folder: Path) -> None:
    host = HostPaths(exchange=folder)
    with host.open_source("sub/fedora.iso", typed=False) as file:
        assert file.read() == b"fedora"
    with open_confined(folder, str(folder / "debian.iso")) as file:
        assert file.read() == b"debian"


@pytest.mark.parametrize("name", ["/proc/self/environ", "/dev/null", "pipe", "sub", "gone", "debian.iso\0"])
def test_what_a_person_types_is_a_plain_file_too(folder: Path, name: str) -> None:
    typed = settled(str(folder / name) if not name.startswith("/") else name)
    with pytest.raises(SafetyError):
        HostPaths().image(typed, typed=True)


def test_what_a_person_types_may_lie_anywhere_and_is_one_file_from_then_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HostPaths()
    typed = settled(str(folder / "in.iso"))
    assert host.image(typed, typed=True) == str(folder / "debian.iso")
    monkeypatch.chdir(folder)
    assert settled("debian.iso") == str(folder / "debian.iso")
    (folder / "debian.iso").unlink()
    (folder / "debian.iso").symlink_to(folder.parent / "secret")
    with pytest.raises(SafetyError, match="no longer"):
        host.image(typed, typed=True)


ALLOWED = ("https://mirror.example.org", "http://lab.example.org:8080/iso")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://mirror.example.org/debian.iso", True),
        ("https://mirror.example.org:443/debian.iso", True),
        ("https://MIRROR.example.org/debian.iso", True),
        ("http://lab.example.org:8080/iso/a.iso", True),
        ("http://mirror.example.org/debian.iso", False),
        ("https://mirror.example.org:8443/debian.iso", False),
        ("https://mirror.example.org.evil.test/debian.iso", False),
        ("https://evil.test/mirror.example.org/x", False),
        ("https://mirror.example.org@evil.test/x", False),
        ("https://user@mirror.example.org/x", False),
        ("http://lab.example.org:8080/isolated/a.iso", False),
        ("http://lab.example.org:8080/iso/../a.iso", False),
        ("http://lab.example.org:8080/iso/%2e%2e/a.iso", False),
        ("http://lab.example.org:8080/iso/..%2fa.iso", False),
        ("ftp://mirror.example.org/debian.iso", False),
        ("nbd://mirror.example.org/disk", False),
        ("https://[mirror.example.org/x", False),
    ],
)
def test_addresses_are_those_of_the_named_hosts(address: str, allowed: bool) -> None:
    host = HostPaths(media=ALLOWED)
    if allowed:
        assert host.image(address, typed=False) == address
    else:
        with pytest.raises(SafetyError, match="not among the addresses"):
            host.image(address, typed=False)
    assert host.image(address, typed=True) == address


def test_a_download_goes_into_the_exchange_folder_only(folder: Path) -> None:
    kept = folder / "state"
    kept.mkdir()
    (folder / "reflexarc.toml").write_text("")
    (folder / "to-state").symlink_to(kept)
    host = HostPaths(exchange=folder, kept=(kept, folder / "reflexarc.toml", Path("/etc/reflexarc")))
    assert host.target("new", typed=False) == folder / "new"
    assert host.target("sub/new", typed=False) == folder / "sub/new"
    assert host.target("debian.iso", typed=False) == folder / "debian.iso"
    for name in (
        "../new", "up/new", "/tmp/new", "out", "pipe", "sub", "", ".", "..", "state", "state/runs.sqlite",
        "to-state/runs.sqlite", "reflexarc.toml", "sub/../reflexarc.toml", "gone/new", "new\0", "/dev/shm/new",
    ):  # fmt: skip
        with pytest.raises(SafetyError):
            host.target(name, typed=False)


def test_not_even_a_person_has_it_write_where_reflexarc_keeps_its_own(folder: Path) -> None:
    host = HostPaths(kept=(folder / "sub",))
    assert host.target(str(folder / "new"), typed=True) == folder / "new"
    for name in (str(folder / "sub/new"), str(folder / "up/iso/sub/new"), "/proc/self/oom_score_adj"):
        with pytest.raises(SafetyError):
            host.target(settled(name), typed=True)
