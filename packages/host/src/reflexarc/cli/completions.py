"""`reflexarc completions`: the shell's own completion, to be evaluated by its start-up file."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_REFLEXARC_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completions(shell: str) -> None:
    """Print the completion script of SHELL, such as: eval "$(reflexarc completions bash)"."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "reflexarc", _VARIABLE).source())
