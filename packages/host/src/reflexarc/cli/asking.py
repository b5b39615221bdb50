"""Asking the person at the terminal for what only a person may give."""

from __future__ import annotations

import secrets
import sys

import click

from reflexarc.cli.text import is_terminal, one_line
from reflexarc.playbook.grants import Request

# Without those that are taken for one another.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
CODE_LENGTH = 5


def shown_request(request: Request, remark: str = "") -> str:
    """One destructive step on one line: operation, step, arguments, and what is verified immediately before."""
    checked = "UNVERIFIED: nothing is checked before" if request.unverified else f"if {request.verified_by}"
    arguments = f" ({one_line(request.arguments)})" if request.arguments else ""
    return f"  {request.operation:<16} {one_line(request.step)!r}{arguments}, {one_line(checked)}{remark}"


def authorised(machine: str, operation: str, yes: bool) -> bool:
    """Ask the person at the terminal; without a terminal nothing destructive is authorised."""
    if not is_terminal(sys.stdin):
        return False
    return yes or click.confirm(f"{operation} on {machine} is destructive. Send it?", default=False, err=True)


def typed_code() -> bool:
    """Show a code that nobody knows before on the terminal, and tell whether the person typed it."""
    code = "".join(secrets.choice(_LETTERS) for _ in range(CODE_LENGTH))
    typed = click.prompt(f"Type {code} to grant this", default="", show_default=False, err=True)
    return secrets.compare_digest(str(typed).strip().encode(), code.encode())
