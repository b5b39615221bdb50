"""Files that persons name: read where they are plain, refused at once where they are not, whoever reads them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reflexarc.cli.driving import make_reply
from reflexarc.drivers.agent.config import AgentConfig
from reflexarc.errors import ConfigError, PlaybookError
from reflexarc.inventory import entries
from reflexarc.plainfiles import read_plain
from reflexarc.playbook.document import MAX_CHARACTERS
from reflexarc.playbook.loader import load_file
from reflexarc.runs.secrets import resolve
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases
READERS: dict[str, Callable[[Path], object]] = {
    "playbook": lambda path: load_file(path, PHASES),
    "inventory": entries.load,
    "secret": lambda path: resolve("pw", f"file:{path}"),
    "token": lambda path: AgentConfig(token=f"file:{path}").secret("lab"),
    "steps": lambda path: make_reply("act", str(path)),
    "amendment": lambda path: make_reply("amend", str(path)),
    "needle": lambda path: make_reply("teach", None, phase="x", needle=path),
    "frame": load_frame,
    "phases": lambda path: load_recognisers([path.parent]),
}


@pytest.fixture(params=["pipe", "socket", "folder", "device"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "it.yaml"
    with socket.socket(socket.AF_UNIX) as listener:
        match request.param:
            case "pipe":
                os.mkfifo(path)
            case "socket":
                listener.bind(str(path))
            case "folder":
                path.mkdir()
            case "device":
                path.symlink_to("/dev/zero")
        yield path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.timeout(10)
def test_what_is_no_plain_file_is_refused_at_once(no_file: Path, reader: str) -> None:
    with pytest.raises((ConfigError, PlaybookError)) as caught:
        READERS[reader](no_file)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("size", [0, 9, 10, 11, 5000])
def test_a_larger_one_is_told_by_a_byte_more(tmp_path: Path, size: int) -> None:
    (tmp_path / "x").write_bytes(bytes(size))
    assert len(read_plain(tmp_path / "x", 10)) == min(size, 11)


@pytest.mark.parametrize("character", ["#", "\N{EURO SIGN}"])
@pytest.mark.parametrize("over", [1, 2, 3, MAX_CHARACTERS, 4 * MAX_CHARACTERS])
def test_a_playbook_s_file_is_bounded(tmp_path: Path, character: str, over: int) -> None:
    """Refused for its size, wherever in a character the reading stops."""
    path = tmp_path / "large.yaml"
    path.write_text("#" + " " * (over % 3) + character * (MAX_CHARACTERS + over), encoding="utf-8")
    for read in (READERS["playbook"], READERS["amendment"]):
        with pytest.raises(PlaybookError, match="larger than 1,000,000 characters"):
            read(path)
    steps = "\n".join(f"  - {{name: s{n}, wait_for: grub_menu}}" for n in range(300))
    path.write_text(f"name: fits\nsteps:\n{steps}\n#" + "x" * 900_000)
    assert len(load_file(path, PHASES).steps) == 300
