"""`reflexarc mcp`: machines for AI agents, over the Model Context Protocol."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflexarc.cli.options import inventory_option
from reflexarc.errors import ConfigError

if TYPE_CHECKING:
    from reflexarc.mcp.protocol import Server


@click.group(invoke_without_command=True)
@click.option(
    "--http", metavar="HOST:PORT", help="Serve HTTP there (path /mcp), not standard input and output."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The bearer token that clients bring over HTTP; needed off loopback, readable by its owner only.",
)
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
@click.argument("client", required=False, type=click.Choice(["claude-code", "vscode"]))
@click.option(
    "--folder", default=".", type=click.Path(path_type=Path, file_okay=False), help="The project's folder."
)
@click.option("--yes", is_flag=True, help="Write without asking.")
@inventory_option
def install(client: str | None, folder: Path, yes: bool, inventory: Path | None) -> None:
    """Print the entry for any client, or write it into CLIENT's file of the project."""
    from reflexarc.mcp import clients

    if client is None:
        click.echo(json.dumps({"mcpServers": {"reflexarc": clients.snippet(inventory)}}, indent=2))
        return
    chosen = clients.CLIENTS[client]
    path, before, after = clients.changed(chosen, folder, inventory)
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
