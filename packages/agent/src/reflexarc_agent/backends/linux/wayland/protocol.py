"""The Wayland wire protocol from the client's end, without a socket: bytes and descriptors in, events out.

Source: "The Wayland Protocol", chapter "Wire Protocol".
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.interfaces import INTERFACES, Signature

DISPLAY = 1
FIRST_OF_SERVER = 0xFF000000
OBJECTS, DESCRIPTORS = 20_000, 256
"""How many objects the compositor may make, and how many descriptors may wait for their event."""

_HEADER = struct.Struct("=II")
_NUMBERS = {"u": "=I", "o": "=I", "n": "=I", "i": "=i", "f": "=i"}
MAX_BODY = 0xFFFC - _HEADER.size


class Event(NamedTuple):
    """What an object tells; the descriptors, which are among `arguments` too, are its receiver's to close."""

    object: int
    name: str
    arguments: Tuple[Any, ...]
    descriptors: Tuple[int, ...] = ()


class Request(NamedTuple):
    """What is to be sent, and the object that it makes (0 where it makes none)."""

    data: bytes
    descriptors: List[int]
    made: int


class Protocol:
    """The objects of one connection and what each of them says."""

    def __init__(self) -> None:
        self._interfaces: Dict[int, str] = {DISPLAY: "wl_display"}
        self._free: List[int] = []
        self._fresh = DISPLAY + 1
        self._made_by_server = 0
        self._buffer = bytearray()
        self._descriptors: Deque[int] = deque()

    def interface(self, number: int) -> str:
        """The interface of an object, "" where there is no such object."""
        return self._interfaces.get(number, "")

    def request(self, number: int, name: str, *arguments: Any) -> Request:
        """Encode a request; a new object's place among the arguments is left out. Raises WaylandError."""
        requests = INTERFACES[self._interfaces[number]].requests
        opcode, signature = next((at, r) for at, r in enumerate(requests) if r.name == name)
        made = self._make(signature.makes or arguments[1]) if "n" in signature.arguments else 0
        try:
            body, descriptors = _body(signature, made, arguments)
        except (struct.error, UnicodeEncodeError) as error:
            self._forget(made)
            raise WaylandError(f"{name} can't be asked with {arguments}: {error}") from error
        word = (len(body) + _HEADER.size) << 16 | opcode
        return Request(_HEADER.pack(number, word) + body, descriptors, made)

    def feed(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Take in what was received; raises WaylandError where too many descriptors wait."""
        self._buffer += data
        self._descriptors.extend(descriptors)
        if len(self._descriptors) > DESCRIPTORS:
            raise WaylandError("the compositor sent more file descriptors than events for them")

    def next(self) -> Optional[Event]:
        """The next event that is complete; raises WaylandError where what was received is none."""
        if len(self._buffer) < _HEADER.size:
            return None
        number, word = _HEADER.unpack_from(self._buffer)
        size, opcode = word >> 16, word & 0xFFFF
        if size < _HEADER.size or size % 4:
            raise WaylandError(f"the compositor sent a message of {size} bytes")
        if len(self._buffer) < size:
            return None
        body = bytes(self._buffer[_HEADER.size : size])
        del self._buffer[:size]
        signature = self._event(number, opcode)
        arguments = self._decoded(signature, body)
        passed = tuple(value for kind, value in zip(signature.arguments, arguments) if kind == "h")
        event = Event(number, signature.name, arguments, passed)
        if number == DISPLAY and event.name == "delete_id":
            self._forget(event.arguments[0])
        return event

    def leftover(self) -> List[int]:
        """The descriptors that no event has taken; they are the caller's now."""
        left = list(self._descriptors)
        self._descriptors.clear()
        return left

    def _event(self, number: int, opcode: int) -> Signature:
        interface = self._interfaces.get(number)
        if interface is None:
            raise WaylandError(f"the compositor spoke for an object {number:#x} that doesn't exist")
        events = INTERFACES[interface].events
        if opcode >= len(events):
            raise WaylandError(f"the compositor sent {interface} event {opcode}, which isn't known")
        return events[opcode]

    def _decoded(self, signature: Signature, body: bytes) -> Tuple[Any, ...]:
        values, at = [], 0
        for kind in signature.arguments:
            if kind == "h":
                if not self._descriptors:
                    raise WaylandError(f"the compositor sent {signature.name} without its file descriptor")
                values.append(self._descriptors.popleft())
                continue
            value, at = _argument(kind, body, at)
            if kind == "n":
                self._made(value, signature.makes)
            values.append(value)
        return tuple(values)

    # -- objects

    def _make(self, interface: str) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number, self._fresh = self._fresh, self._fresh + 1
        self._interfaces[number] = interface
        return number

    def _made(self, number: int, interface: str) -> None:
        """Take note of an object of the compositor's; it uses the numbers of destroyed ones again."""
        if number < FIRST_OF_SERVER:
            raise WaylandError(f"the compositor made an object {number:#x} out of its range")
        if number not in self._interfaces:
            self._made_by_server += 1
        if self._made_by_server > OBJECTS:
            raise WaylandError(f"the compositor made more than {OBJECTS} objects")
        self._interfaces[number] = interface

    def _forget(self, number: int) -> None:
        if DISPLAY < number < FIRST_OF_SERVER and self._interfaces.pop(number, None) is not None:
            self._free.append(number)


def _body(signature: Signature, made: int, arguments: Sequence[Any]) -> Tuple[bytes, List[int]]:
    left, body, descriptors = iter(arguments), bytearray(), []
    for kind in signature.arguments:
        value = made if kind == "n" else next(left)
        if kind == "h":
            descriptors.append(value)
        else:
            body += _encoded(kind, value)
    if len(body) > MAX_BODY:
        raise struct.error(f"{len(body)} bytes are too many")
    return bytes(body), descriptors


def _encoded(kind: str, value: Any) -> bytes:
    if kind == "f":
        value = max(-(1 << 31), min(round(value * 256), (1 << 31) - 1))
    if kind in _NUMBERS:
        return struct.pack(_NUMBERS[kind], value)
    data = value.encode() + b"\0" if kind == "s" else bytes(value)
    return struct.pack("=I", len(data)) + data + bytes(-len(data) % 4)


def _argument(kind: str, body: bytes, at: int) -> Tuple[Any, int]:
    """The argument that begins there, and where the next one does; raises WaylandError."""
    if at + 4 > len(body):
        raise WaylandError("the compositor sent a message that ends too early")
    value = struct.unpack_from(_NUMBERS.get(kind, "=I"), body, at)[0]
    at += 4
    if kind in _NUMBERS:
        return (value / 256 if kind == "f" else value), at
    if at + value > len(body):
        raise WaylandError("the compositor sent a message that ends too early")
    data = body[at : at + value]
    at += value + -value % 4
    if kind == "s":
        return data.partition(b"\0")[0].decode("utf-8", "replace"), at
    return data, at
