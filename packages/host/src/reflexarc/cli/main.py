"""The `reflexarc` command; loads a subcommand's code only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from reflexarc import __version__

if TYPE_CHECKING:
    import click

    from reflexarc.errors import ReflexarcError

EXIT_FAILED, EXIT_USAGE, EXIT_HELD, EXIT_INTERRUPTED = 1, 2, 3, 130

_COMMANDS = {
    "run": "run a playbook on one or more machines",
    "runs": "list, show, report, answer, resume and abort runs",
    "grant": "authorise, in advance and once, what is destructive; list and revoke",
    "audit": "show what was sent to machines, and what was refused",
    "machines": "list machines, start and stop virtual ones",
    "agent": "build the agent for inside of a guest, and put it there",
    "init": "write a first inventory",
    "observe": "say what phase a machine is in, and what its screen reads",
    "watch": "say each phase as a machine enters it",
    "screenshot": "save what a machine shows as PNG",
    "key": "press a key or a chord",
    "type": "type a text",
    "power": "ask or change the power",
    "ax": "read the elements of a guest's desktop, and press, set, focus, await them",
    "exec": "run a command in the guest",
    "cp": "copy a file to or from a guest",
    "phases": "list phases, explain a frame, try the recognisers on labelled screens",
    "playbook": "validate, list and show playbooks; print their JSON Schema",
    "doctor": "say what is wrong with the host and the machines, and how to put it right",
    "demo": "build a small machine and drive it from power-on to a shell",
    "mcp": "serve machines to AI agents over the Model Context Protocol",
    "completions": "print the completion script of a shell",
}
_MODULES = {
    "run": "run",
    "runs": "runs",
    "grant": "grant",
    "audit": "audit",
    "machines": "machines",
    "agent": "agent",
    "init": "init",
    "observe": "look",
    "watch": "watch",
    "screenshot": "look",
    "key": "control",
    "type": "control",
    "power": "control",
    "ax": "ax",
    "exec": "guest",
    "cp": "guest",
    "phases": "phases",
    "playbook": "playbook",
    "doctor": "doctor",
    "demo": "demo",
    "mcp": "mcp",
    "completions": "completions",
}
_FUNCTIONS = {"type": "type_text", "run": "run_playbook", "exec": "execute", "cp": "copy"}


def main() -> None:
    """Entry point; errors become one message and the exit code of the playbook format's page."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"reflexarc {__version__}")
        return
    sys.exit(_guarded(sys.argv[1:]))


def _guarded(arguments: list[str]) -> int:
    import click

    from reflexarc.errors import ReflexarcError

    try:
        result = _group()(arguments, prog_name="reflexarc", standalone_mode=False)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except ReflexarcError as error:
        return _say(error, code_of(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_FAILED
    except Exception:  # noqa: BLE001  # the last resort: a mistake of ours is told in one line too
        return _own_mistake()
    return result if isinstance(result, int) else 0


def _say(error: Exception, code: int) -> int:
    from reflexarc.cli.text import pasteable, printable

    print(f"reflexarc: {pasteable(printable(str(error)))}", file=sys.stderr)
    return code


def code_of(error: ReflexarcError) -> int:
    """The exit code of an error: a run that it interrupts, a file or an argument that is wrong, or anything else."""
    from reflexarc.errors import ConfigError, JournalError, PlaybookError

    if isinstance(error, JournalError) and error.run_id:
        return EXIT_INTERRUPTED
    return EXIT_USAGE if isinstance(error, ConfigError | JournalError | PlaybookError) else EXIT_FAILED


def _own_mistake() -> int:
    import tempfile
    import traceback

    where = "what stands above"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="reflexarc-", suffix=".log", delete=False) as log:
            traceback.print_exc(file=log)
        where = log.name
    except OSError:
        traceback.print_exc()
    print(
        f"reflexarc: a mistake of reflexarc itself; please report it with {where}. "
        "No run is lost: see `reflexarc runs list`",
        file=sys.stderr,
    )
    return EXIT_FAILED


def _group() -> click.Group:
    import click

    class Commands(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(_COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in _COMMANDS:
                return None
            module = import_module(f"reflexarc.cli.{_MODULES[cmd_name]}")
            command: click.Command = getattr(module, _FUNCTIONS.get(cmd_name, cmd_name))
            return command

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(_COMMANDS.items()))

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            from difflib import get_close_matches

            near = get_close_matches(args[0], list(_COMMANDS), n=1)
            if args[0] not in _COMMANDS and near:
                ctx.fail(f"there is no command {args[0]!r}; did you mean {near[0]!r}?")
            return super().resolve_command(ctx, args)

    return Commands(
        name="reflexarc",
        help="Drives computers on their real state, from firmware to desktop.",
        epilog="Exit codes: 0 succeeded, 1 failed, 2 usage or bad file, 3 held, 130 interrupted.",
        params=[click.Option(["--version", "-V"], is_flag=True, help="Print the version.")],
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
