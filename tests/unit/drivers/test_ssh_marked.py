"""An output is read up to the line that ends it, however it is cut."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reflexarc.drivers.ssh.process import MAX_NOISE, Marked

TOKEN = "ab" * 16
# Much that looks like the beginning of the mark.
TEXTS = st.lists(st.sampled_from([b"a", b"ab", TOKEN[:-1].encode(), TOKEN.encode(), b"\n", b"\0\xff"])).map(
    b"".join
)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[a:b] for a, b in pairwise(edges)]


def read(pieces: list[bytes]) -> tuple[bytes, int | None]:
    async def all_of_it() -> tuple[bytes, int | None]:
        reader = asyncio.StreamReader()
        marked = Marked(reader, TOKEN)

        async def feed() -> None:
            for piece in pieces:
                reader.feed_data(piece)
                await asyncio.sleep(0)
            reader.feed_eof()

        feeding = asyncio.create_task(feed())
        found = b""
        while data := await marked.read():
            found += data
        await feeding
        return found, marked.status

    return asyncio.run(all_of_it())


@given(TEXTS, st.integers(0, 255), st.binary(max_size=50), st.lists(st.integers(0, 300)))
def test_nothing_is_lost_and_nothing_added(text: bytes, status: int, after: bytes, at: list[int]) -> None:
    whole = text + f"{TOKEN} end {status}\n".encode() + after
    assert read(cut(whole, at)) == (text, status)


@given(TEXTS, st.lists(st.integers(0, 300)))
def test_what_is_cut_off_has_no_status(text: bytes, at: list[int]) -> None:
    assert read(cut(text, at)) == (text, None)


def test_an_end_without_end_is_no_end() -> None:
    assert read([TOKEN.encode() + b" end " + b"1" * 1000]) == (b"", None)


def test_what_a_login_shell_says_first_is_skipped_up_to_a_bound() -> None:
    async def word(data: bytes) -> str | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        try:
            return await Marked(reader, TOKEN).word()
        except ValueError:
            return "too much"

    assert asyncio.run(word(b"Welcome!\n" + TOKEN.encode() + b" ready\n")) == "ready"
    assert asyncio.run(word(b"Welcome!\n")) is None
    assert asyncio.run(word(b"x" * (MAX_NOISE + 1))) == "too much"
