from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_wire import WireError
from reflexarc_wire.framing import FROM_GUEST, FROM_HOST, Limits, LineReader, read_line, write_line

SMALL = Limits(line=40, depth=4, values=20)


def read_all(reader: LineReader) -> list[bytes]:
    return list(iter(reader.next, None))


@given(st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_come_out_whole_wherever_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    reader, found, at = LineReader(SMALL), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, 50))
        reader.feed(stream[at : at + size])
        found += read_all(reader)
        at += size
    assert found == lines


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n{}\n"])
def test_a_line_above_the_limit_is_refused_with_its_newline_and_without(ending: bytes) -> None:
    reader = LineReader(SMALL)
    reader.feed(b"x" * 40 + b"\n" + b"x" * 41 + ending)
    assert reader.next() == b"x" * 40
    for _ in range(2):
        with pytest.raises(WireError, match="more than 40 bytes"):
            reader.next()


def test_an_endless_line_is_refused_before_it_costs_memory() -> None:
    reader, piece = LineReader(FROM_HOST), b"[" * 65536
    tracemalloc.start()
    try:
        for _ in range(16):
            reader.feed(piece)
            assert reader.next() is None
        reader.feed(piece)
        with pytest.raises(WireError, match="more than 1048576 bytes"):
            reader.next()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


BAD = {
    "no JSON": b"hello",
    "nothing": b"",
    "no object": b"[1]",
    "a number": b"17",
    "half an object": b'{"op":"ping"',
    "two objects": b'{"op":"ping"}{"op":"ping"}',
    "a NUL": b'{"op":"pi\0ng"}',
    "NULs around": b'\0{"op":"ping"}',
    "no UTF-8": b'{"op":"\xff"}',
    "half a character": b'{"op":"\xc3"}',
    "a lone surrogate": rb'{"op":"\ud800"}',
    "a lone surrogate in UTF-8": b'{"op":"\xed\xa0\x80"}',
    "not a number": b'{"x":NaN}',
    "infinity": b'{"x":-Infinity}',
    "a huge exponent": b'{"x":1e999}',
    "a million digits": b'{"x":' + b"9" * 1_000_000 + b"}",
    "a million decimals": b'{"x":0.' + b"9" * 1_000_000 + b"}",
    "deep lists": b"[" * 500_000,
    "deep lists, closed": b'{"x":' + b"[" * 65 + b"]" * 65 + b"}",
    "deep objects": b'{"a":' * 200_000,
    "deep after strings": b'{"a":"\\\\\\"]]]]","b":' + b"[" * 70 + b"]" * 70 + b"}",
    "a flood of lists": b"[" + b"[]," * 300_000 + b"[]]",
    "a flood of numbers": b"[" + b"1," * 500_000 + b"1]",
    "quotes only": b'"' * 1_000_000,
    "escaped quotes only": b'[[[[[[[["' + b'\\"' * 500_000,
    "backslashes only": b"[" * 65 + b"\\" * 1_000_000,
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD.keys())
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        read_line(line, FROM_HOST)


def test_brackets_in_strings_are_no_nesting_and_64_levels_are_read() -> None:
    text = '[{"\\' * 5000
    assert read_line(write_line({"text": text}).rstrip(), FROM_HOST) == {"text": text}
    line = b'{"x":' + b"[" * 63 + b"]" * 63 + b"}"
    assert read_line(line, FROM_HOST) == json.loads(line)


def test_a_tree_of_64_levels_and_50000_nodes_from_a_guest_is_read() -> None:
    deep: dict[str, object] = {"children": [], "role": "AXGroup"}
    for _ in range(64):
        deep = {"children": [deep], "role": "AXGroup"}
    values: dict[str, object] = {
        "ok": True,
        "tree": deep,
        "wide": [{"ref": n, "t": ["x"]} for n in range(50_000)],
    }
    assert read_line(write_line(values).rstrip(), FROM_GUEST) == values


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_what_is_written_is_one_line_and_reads_back(values: dict[str, object]) -> None:
    line = write_line(values)
    assert line.count(b"\n") == 1
    assert read_line(line[:-1], FROM_GUEST) == values


def test_lone_surrogates_are_written_as_question_marks_and_infinity_is_refused() -> None:
    assert write_line({"path": "/tmp/\udcff"}) == b'{"path":"/tmp/?"}\n'
    with pytest.raises(WireError, match="can't carry"):
        write_line({"x": float("inf")})


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_garbage_gives_a_wire_error_or_an_object_that_is_valid_json(line: bytes) -> None:
    try:
        found = read_line(line, FROM_HOST)
    except WireError:
        return
    assert found == json.loads(line)
