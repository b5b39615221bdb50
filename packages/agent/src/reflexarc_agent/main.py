"""The command `reflexarc-agent`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType
from typing import List, Optional, Sequence

from reflexarc_agent import VERSION
from reflexarc_agent.backend import Backend
from reflexarc_agent.channel import PipeChannel
from reflexarc_agent.connection import Connection
from reflexarc_agent.files import Files
from reflexarc_agent.readiness import tell_ready
from reflexarc_agent.registry import Registry
from reflexarc_agent.server import Server, Source
from reflexarc_agent.stopping import ENDING, asked_to_end, notice
from reflexarc_agent.transports.chosen import NAMES, add_options, any_chosen, sources
from reflexarc_agent.transports.listening import ListenError, Listening
from reflexarc_wire.requests import FEATURES


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the agent until it is told to stop; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] in (["install"], ["uninstall"], ["start"], ["status"]):
        from reflexarc_agent.installing import change

        return change(_parser(), given)
    if given[:1] == ["autostart"]:
        from reflexarc_agent.installing import autostart

        if autostart():
            return 0
        given = given[1:]
    parser = _parser()
    chosen = parser.parse_args(given)
    named = any_chosen(chosen)
    if not (chosen.stdio or named):
        parser.error("name at least one of --stdio, " + ", ".join(f"--{name}" for name in NAMES))
    if chosen.stdio and named:
        parser.error("--stdio serves the one host that started it: leave the other transports away")
    registry = Registry([Files(), *([] if chosen.headless else _desktop())], chosen.without)
    try:
        if chosen.stdio:
            _serve_stdio(registry)
        else:
            _serve(registry, sources(chosen))
    except ListenError as error:
        notice(str(error))
        return 1
    return 0


def _desktop() -> List[Backend]:
    """The backends of the desktop session, whether or not it is there yet."""
    if sys.platform == "linux":
        from reflexarc_agent.backends.linux.login import SessionEnvironment
        from reflexarc_agent.backends.linux.serving import backends

        return backends(SessionEnvironment(os.environ))
    else:  # noqa: RET505 (mypy knows what is unreachable on a platform only so)
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reflexarc-agent",
        description="The agent inside a guest. Name the ways by which hosts reach it.",
        epilog="`reflexarc-agent.pyz install --user|--system OPTIONS` has it started with every session or boot, "
        "with these options; `uninstall` undoes that, `status` tells whether it runs.",
    )
    parser.add_argument("--version", action="version", version=f"reflexarc-agent {VERSION}")
    add_options(parser)
    parser.add_argument("--stdio", action="store_true", help="serve one host on standard input and output")
    parser.add_argument(
        "--headless",
        action="store_true",
        help="serve commands and files only, and look for no desktop session",
    )
    parser.add_argument(
        "--without",
        metavar="FEATURE",
        action="append",
        default=[],
        choices=FEATURES,
        help=f"switch a feature off: {', '.join(FEATURES)}",
    )
    return parser


def _serve(registry: Registry, chosen: Sequence[Source]) -> None:
    with asked_to_end() as asked:
        server = Server(registry)
        for source in chosen:
            server.take_from(source)
            if isinstance(source, Listening):
                notice(f"listening on {source.name}")
        tell_ready()
        os.read(asked, 1)
        server.close()


def _serve_stdio(registry: Registry) -> None:
    def stop(number: int, frame: Optional[FrameType]) -> None:
        raise SystemExit(128 + number)

    for number in ENDING:
        signal.signal(number, stop)
    Connection(PipeChannel(sys.stdin.fileno(), sys.stdout.fileno()), registry).serve()
