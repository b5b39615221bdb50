"""What runs in the guest: scripts for a POSIX shell, which reads them from its standard input.

So the account may have any login shell, and nothing that is sent stands in a list of processes. A script says its
token on both outputs once it is ready, runs when it is told to, and says it again with the exit status.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from shlex import quote

from reflexarc.machine.capabilities import Command

LAUNCH = "exec /bin/sh"
GO = b"go\n"
TERMINATE = b"TERM\n"
SIZE_DIGITS = 20

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The braces have the shell read everything before it begins: what follows on its input is not the script's.
_FRAME = """{{
T={token}
say() {{ printf '%s %s\\n' "$T" "$1"; }}
refuse() {{ say "refused $1"; exit 0; }}
{prepare}
say ready >&2
say ready
read -r go || exit 0
{run}
say "end $status" >&2
say "end $status"
exit 0
}}
"""

# The command has a process group of its own. A second process holds the input: it passes signals on to the group,
# and at the end of the input, when nobody is there any more, kills it, be it that the group has yet to come into
# being. The shell's own remarks go nowhere.
_RUN = """\
exec 3<&0 4>&2 </dev/null 2>/dev/null
if command -v setsid >/dev/null; then
  setsid {words} 2>&4 3<&- 4>&- &
else
  set -m
  {words} 2>&4 3<&- 4>&- &
fi
child=$!
(
  trap '' HUP INT TERM
  while read -r signal; do kill -s "$signal" -- "-$child"; done
  until kill -s KILL -- "-$child" || ! kill -0 "$child"; do :; done
) <&3 >/dev/null 4>&- &
holder=$!
exec 3<&-
wait "$child"
status=$?
kill -s KILL "$holder"
exec 2>&4"""

_FOUND = """\
found() (
  case $1 in */*) [ -f "$1" ] && [ -x "$1" ]; exit ;; esac
  set -f
  IFS=:
  for folder in $PATH; do [ -f "${folder:-.}/$1" ] && [ -x "${folder:-.}/$1" ] && exit 0; done
  exit 1
)"""

_READ = """\
[ -e {path} ] || refuse 'absent there is no such file'
[ -f {path} ] || refuse 'special it is no plain file'
[ -r {path} ] || refuse 'denied its account may not read it'"""

_PUT_READY = """\
umask 077
part={part}
[ -d {folder} ] || refuse 'absent there is no such folder'
[ ! -d {path} ] || refuse 'special it is a folder'
(: >"$part") 2>/dev/null || refuse 'denied its account may not write there'
trap '' HUP PIPE
trap 'rm -f "$part"' EXIT"""

# The last bytes say that everything has come. A stream that was cut ends otherwise, and leaves nothing behind.
_PUT = """\
cat >"$part" &&
size=$(($(wc -c <"$part") - {trailer})) &&
[ "$size" -ge 0 ] &&
[ "$(tail -c {trailer} "$part" 2>/dev/null)" = "$(printf '%0{digits}d' "$size")$T" ] &&
dd if=/dev/null of="$part" bs=1 seek="$size" 2>/dev/null &&
chmod {mode:o} "$part" &&
mv -f "$part" {path}
status=$?"""


def command_script(command: Command, token: str) -> str:
    """Run a command; its input takes signals' names by line.

    Raises ValueError for the name of a variable that no shell can set.
    """
    prepare = [_FOUND] if command.argv else []
    if command.cwd is not None:
        folder = quote(command.cwd if posixpath.isabs(command.cwd) else f"./{command.cwd}")
        prepare.append(
            f"cd {folder} 2>/dev/null || refuse {quote(f'absent there is no folder {command.cwd}')}"
        )
    prepare += _exports(command.env)
    if command.line:
        # At a lower level bash would take itself for the login shell of this connection, and read .bashrc once more.
        prepare.append("export SHLVL=1")
        words = f'"${{SHELL:-/bin/sh}}" -c {quote(command.line)}'
    else:
        program = command.argv[0]
        prepare.append(f"found {quote(program)} || refuse {quote(f'absent there is no program {program}')}")
        words = f"""/bin/sh -c 'exec "$@"' sh {" ".join(map(quote, command.argv))}"""
    return framed("\n".join(prepare), _RUN.format(words=words), token)


def read_script(path: str, token: str) -> str:
    """Write a file to the output."""
    quoted = quote(path)
    return framed(_READ.format(path=quoted), f"cat <{quoted}\nstatus=$?", token)


def write_script(path: str, mode: int, token: str) -> str:
    """Put what comes on the input, up to `trailer`, into a file, whole or not at all."""
    folder = posixpath.dirname(path)
    part = quote(posixpath.join(folder, f".reflexarc-{token}.part"))
    prepare = _PUT_READY.format(part=part, folder=quote(folder), path=quote(path))
    trailer = len(trailer_of(0, token))
    run = _PUT.format(trailer=trailer, digits=SIZE_DIGITS, mode=mode & 0o7777, path=quote(path))
    return framed(prepare, run, token)


def trailer_of(size: int, token: str) -> bytes:
    """What ends a file of that size on its way to the guest."""
    return f"{size:0{SIZE_DIGITS}d}{token}".encode()


def framed(prepare: str, run: str, token: str) -> str:
    """A whole script; `prepare` may refuse, `run` sets the status."""
    return _FRAME.format(token=token, prepare=prepare, run=run)


def _exports(env: Mapping[str, str]) -> list[str]:
    for name in env:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a variable's name is letters, digits and _, not {name!r}")
    return [f"export {name}={quote(value)}" for name, value in env.items()]
