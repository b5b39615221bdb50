"""Locks on files: who has them, who may have them, and what asking does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reflexarc.errors import MachineBusyError
from reflexarc.machine.lock import FileLock, MachineLock


def test_one_at_a_time(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert (one.take(), one.take(), other.take()) == (True, True, False)
    assert (one.held, other.held) == (True, False)
    one.release()
    one.release()
    assert other.take()


def test_asking_says_who_and_leaves_no_file(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert other.holder() is None
    assert not (tmp_path / "lock").exists()
    one.take()
    assert (one.holder(), other.holder()) == (None, "another process")
    one.sign("the night's tests")
    assert other.holder() == "the night's tests"
    one.release()
    assert other.holder() is None


def test_a_waiter_gets_it_when_it_is_free(tmp_path: Path) -> None:
    first, order = FileLock(tmp_path / "lock"), []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with FileLock(tmp_path / "lock"):
            order.append("second")

    with first:
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Threads that ask all the time who holds the lock, once started."""
    over, threads = threading.Event(), []

    def ask() -> None:
        while not over.is_set():
            FileLock(tmp_path / "lock").holder()

    def start() -> None:
        threads.append(threading.Thread(target=ask))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


def test_who_only_asks_keeps_nobody_from_taking_it(tmp_path: Path, asking: Callable[[], None]) -> None:
    (tmp_path / "lock").touch()
    asking()
    for _ in range(200):
        lock = FileLock(tmp_path / "lock")
        assert lock.take()
        lock.release()


def test_a_machine_s_lock_names_its_holder(tmp_path: Path) -> None:
    one = MachineLock(tmp_path / "lab" / "lock", "lab", "a run of boot.yaml")
    other = MachineLock(tmp_path / "lab" / "lock", "lab", "a test")
    assert (one.acquire(), one.acquire()) == (True, False)
    with pytest.raises(MachineBusyError, match=rf"a run of boot.yaml \(process {os.getpid()}\)"):
        other.acquire()
    assert other.holder() == f"a run of boot.yaml (process {os.getpid()})"
    one.release()
    assert other.acquire()
    other.release()
