"""Output that travels as bytes behind its frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_wire import HostEnd, WireError
from reflexarc_wire.frames import Exit, Stderr, Stdout, raw_header, write_frame
from reflexarc_wire.requests import Exec

OUTPUTS = st.lists(st.tuples(st.sampled_from([Stdout, Stderr]), st.binary(max_size=60)), max_size=8)


def running(*, raw: bool) -> HostEnd:
    end = HostEnd()
    end.ask(Exec(argv=("true",), raw=raw))
    return end


@given(OUTPUTS, st.data())
def test_bytes_come_through_wherever_the_stream_is_cut(
    outputs: list[tuple[type[Stdout] | type[Stderr], bytes]], data: st.DataObject
) -> None:
    stream = b"".join(raw_header(kind, len(piece)) + piece for kind, piece in outputs) + write_frame(Exit(3))
    end, gathered = running(raw=True), {Stdout: b"", Stderr: b""}
    last = None
    while stream:
        size = data.draw(st.integers(1, 40))
        end.feed(stream[:size])
        stream = stream[size:]
        while (found := end.next()) is not None:
            if isinstance(found, (Stdout, Stderr)):
                assert found.d
                gathered[type(found)] += found.d
            else:
                last = found
    assert last == Exit(3)
    assert gathered == {
        each: b"".join(piece for kind, piece in outputs if kind is each) for each in (Stdout, Stderr)
    }


def test_an_agent_that_knows_no_raw_output_is_understood() -> None:
    end = running(raw=True)
    end.feed(write_frame(Stdout(b"a\n")) + write_frame(Exit(0)))
    assert [end.next(), end.next(), end.next()] == [Stdout(b"a\n"), Exit(0), None]


def test_raw_output_that_nobody_asked_for_is_refused() -> None:
    end = running(raw=False)
    end.feed(raw_header(Stdout, 3) + b"abc")
    with pytest.raises(WireError, match="d is missing"):
        end.next()


@pytest.mark.parametrize("header", [b'{"t":"o","n":-1}', b'{"t":"x","n":1}', b'{"t":"o","n":123456789}'])
def test_what_only_looks_like_raw_output_is_refused(header: bytes) -> None:
    end = running(raw=True)
    end.feed(header + b"\nabc\n")
    with pytest.raises(WireError):
        end.next()
