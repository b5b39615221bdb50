from __future__ import annotations

import os
import socket
import struct
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_agent.transports.vsock import CID_ANY, VsockListener, address, peer

NUMBERS = st.integers(0, (1 << 32) - 1)


@given(NUMBERS, NUMBERS)
def test_both_systems_have_port_and_cid_at_the_same_place(cid: int, port: int) -> None:
    assert peer(address(cid, port, darwin=True)) == peer(address(cid, port, darwin=False)) == (cid, port)


def test_the_layouts_are_those_of_the_kernels() -> None:
    assert address(2, 2035, darwin=False) == struct.pack("=HHII4x", 40, 0, 2035, 2)
    assert address(2, 2035, darwin=True) == bytes([12, 40]) + struct.pack("=HII", 0, 2035, 2)


@pytest.mark.parametrize("native", [True, False])
def test_the_listener_takes_the_port_of_every_address(native: bool) -> None:
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    except OSError:
        # A kernel without vsock says so, and the agent waits.
        with pytest.raises(OSError, match="not supported"):
            VsockListener(20_350, native=native)
        return
    with closing(VsockListener(20_350, native=native)) as listener:
        assert listener.name == "vsock:20350"
        with socket.socket(fileno=os.dup(listener.fileno())) as same:
            assert same.getsockname() == (CID_ANY, 20_350)
        with pytest.raises(BlockingIOError):
            listener.accept()
        with pytest.raises(OSError, match="in use"):
            VsockListener(20_350, native=not native)
