"""`reflexarc mcp`: machines for AI agents, over the Model Context Protocol."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflexarc.cli.options import inventory_option
from reflexarc.errors import ConfigError
from reflexarc.mcp.address import parsed
from reflexarc.mcp.clients import ANY, CLIENTS

if TYPE_CHECKING:
    from reflexarc.mcp.protocol import Server


token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The bearer token that clients bring over HTTP, readable by its owner only; on loopback one is made.",
)


@click.group(invoke_without_command=True)
@click.option(
    "--http", metavar="HOST:PORT", help="Serve HTTP there (path /mcp), not standard input and output."
)
@token_option
@click.option("--dry-run", is_flag=True, help="Check everything, send nothing to any machine.")
@inventory_option
@click.pass_context
def mcp(
    context: click.Context, http: str | None, token_file: Path | None, dry_run: bool, inventory: Path | None
) -> None:
    """Serve machines to an AI agent.

    Agents only look unless the machine's `allow.agents` in the inventory says more; what is destructive needs a
    person's grant as well (`reflexarc grant`).
    """
    if context.invoked_subcommand is not None:
        return
    server = _server(inventory, dry_run)
    if http is None:
        from reflexarc.mcp import stdio

        stdio.serve(server)
    else:
        from reflexarc.mcp import http as over_http

        over_http.serve(server, http, token_file, partial(click.echo, err=True))


@mcp.command()
@click.argument("client", required=False, type=click.Choice(list(CLIENTS)))
@click.option(
    "--folder", default=".", type=click.Path(path_type=Path, file_okay=False), help="The project's folder."
)
@click.option("--http", metavar="HOST:PORT", help="For a server that listens there, not one for this client.")
@token_option
@click.option("--yes", is_flag=True, help="Write without asking.")
@inventory_option
def install(
    client: str | None,
    folder: Path,
    http: str | None,
    token_file: Path | None,
    yes: bool,
    inventory: Path | None,
) -> None:
    """Print the entry for any client, or write it into CLIENT's file of the project."""
    if http is not None:
        parsed(http)
    if client is None:
        click.echo(json.dumps({ANY.key: {"reflexarc": ANY.entry(inventory, http)}}, indent=2))
    else:
        _write(client, folder, http, yes, inventory)
    if http is not None:
        from reflexarc.mcp.token import own_token_file

        path = own_token_file() if token_file is None else token_file.absolute()
        click.echo(CLIENTS.get(client or "", ANY).where_the_token_goes(path), err=True)


def _write(client: str, folder: Path, http: str | None, yes: bool, inventory: Path | None) -> None:
    from reflexarc.mcp import clients

    chosen = CLIENTS[client]
    path, before, after = clients.changed(chosen, folder, inventory, http)
    shown = clients.diff(path, before, after)
    if not shown:
        click.echo(f"{path}: {chosen.name} knows reflexarc already")
        return
    click.echo(shown)
    if yes or click.confirm(f"Write {path}?"):
        clients.write(path, after)
        click.echo(f"{path}: written; restart {chosen.name}")


def _server(inventory: Path | None, dry_run: bool) -> Server:
    try:
        from reflexarc.mcp.server import build
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("mcp", "mcp_types", "pydantic"):
            raise ConfigError("the MCP server needs the package mcp: pip install 'reflexarc[mcp]'") from error
        raise
    return build(inventory, dry_run=dry_run)
