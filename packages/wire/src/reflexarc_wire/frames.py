"""The frames of a running command, tagged `t`: what the guest tells, and what the host sends."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Mapping, Optional, Tuple, Type, TypeVar, Union, cast

from reflexarc_wire.codec import from_object, to_object
from reflexarc_wire.errors import Id, WireError
from reflexarc_wire.framing import write_line
from reflexarc_wire.values import Terminal, check


@dataclass(frozen=True)
class Stdout:
    t: ClassVar[str] = "o"
    d: bytes


@dataclass(frozen=True)
class Stderr:
    t: ClassVar[str] = "e"
    d: bytes


@dataclass(frozen=True)
class Exit:
    """The command ended; a signalled one has code 128 + n.

    `truncated`: some other process still held its output open, and what that writes isn't passed on.
    `timeout`: it was ended because its time was over.
    """

    t: ClassVar[str] = "x"
    code: int
    truncated: Optional[bool] = None
    timeout: Optional[bool] = None


@dataclass(frozen=True)
class NotStarted:
    """The command could not be started, or the agent gave it up; `m` says why, `code` (version 3) is of `CODES`."""

    t: ClassVar[str] = "err"
    m: str
    code: Optional[str] = None


@dataclass(frozen=True)
class Stdin:
    t: ClassVar[str] = "i"
    d: bytes


@dataclass(frozen=True)
class EndOfInput:
    t: ClassVar[str] = "eof"


@dataclass(frozen=True)
class Signal:
    t: ClassVar[str] = "sig"
    n: int

    def __post_init__(self) -> None:
        check(0 < self.n < 65, "a signal is within 1 and 64")


@dataclass(frozen=True)
class Resize(Terminal):
    t: ClassVar[str] = "r"


@dataclass(frozen=True)
class Credit:
    """The sender has consumed `n` bytes; as many more may be sent to it."""

    t: ClassVar[str] = "w"
    n: int

    def __post_init__(self) -> None:
        check(self.n >= 0, "credit can't be negative")


FromGuest = Union[Stdout, Stderr, Exit, NotStarted, Credit]
FromHost = Union[Stdin, EndOfInput, Signal, Resize, Credit]
Frame = Union[FromGuest, FromHost]
F = TypeVar("F")

_DATA = (Stdout, Stderr, Stdin)
_RAW = re.compile(rb'\{"t":"([oe])","n":([0-9]{1,8})\}')

GUEST_FRAMES: Mapping[str, Type[FromGuest]] = {k.t: k for k in (Stdout, Stderr, Exit, NotStarted, Credit)}
HOST_FRAMES: Mapping[str, Type[FromHost]] = {k.t: k for k in (Stdin, EndOfInput, Signal, Resize, Credit)}


def write_frame(frame: Frame, id: Id = None) -> bytes:  # noqa: A002
    """Write a frame as one line; `id` is its request's, needed where commands share a stream."""
    if isinstance(frame, _DATA) and id is None:
        return b'{"t":"%b","d":"%b"}\n' % (frame.t.encode(), base64.b64encode(frame.d))
    envelope = {"t": frame.t} if id is None else {"id": id, "t": frame.t}
    return write_line({**envelope, **to_object(frame)})


def raw_header(frame: Union[Type[Stdout], Type[Stderr]], size: int) -> bytes:
    """Write what stands before `size` bytes of output that follow as they are, where `raw` was asked for."""
    return b'{"t":"%b","n":%d}\n' % (frame.t.encode(), size)


def read_raw_header(line: bytes) -> Optional[Tuple[Union[Type[Stdout], Type[Stderr]], int]]:
    """Read such a line, None where it is another."""
    found = _RAW.fullmatch(line)
    return None if found is None else (Stdout if found[1] == b"o" else Stderr, int(found[2]))


def read_data(line: bytes, kinds: Mapping[str, Type[F]]) -> Optional[F]:
    """Read a line in the very form `write_frame` gives data, None for any other, which is JSON then.

    Some three times faster than JSON for what is nearly all of a command's traffic.
    """
    kind = kinds.get(line[6:7].decode("ascii", "replace"))
    if kind not in _DATA or line[:6] != b'{"t":"' or line[7:14] != b'","d":"' or line[-2:] != b'"}':
        return None
    encoded = line[14:-2]
    try:
        data = binascii.a2b_base64(encoded)
    except binascii.Error:
        return None
    # Characters that aren't base64 are skipped by the decoder, so they show in the length.
    whole = len(encoded) % 4 == 0 and len(data) == len(encoded) // 4 * 3 - encoded.count(b"=")
    return cast("Any", kind)(data) if whole else None


def read_frame(values: Mapping[str, object], kinds: Mapping[str, Type[F]]) -> Optional[F]:
    """Read an object as a frame, None where its tag is none of these; raises WireError where it has no tag."""
    tag = values.get("t")
    if not isinstance(tag, str):
        raise WireError("a frame needs `t`, a string")
    kind = kinds.get(tag)
    return None if kind is None else from_object(kind, values)
