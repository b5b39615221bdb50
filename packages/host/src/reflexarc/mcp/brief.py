"""What the server says on standard error: a line for each mishap, without tracebacks or what a client put in it."""

from __future__ import annotations

import logging

MAX_LINE = 500


class Brief(logging.Formatter):
    """One printable line, with the name of the exception and its words where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        more = "" if error is None else f": {type(error).__name__}: {error}"
        line = f"reflexarc mcp: {record.getMessage()}{more}"
        return "".join(c if c.isprintable() else " " for c in line)[:MAX_LINE]


def configure() -> None:
    """Have the SDK and the HTTP server say it so; what they do with requests that are refused isn't told."""
    handler = logging.StreamHandler()
    handler.setFormatter(Brief())
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
