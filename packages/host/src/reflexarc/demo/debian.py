"""Debian packages by way of apt: which there are, what they depend on, fetched and unpacked without root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from reflexarc.errors import ConfigError

_TIMEOUT = 900.0
# Documentation, translations and character-set tables: most of the bytes, none of the function.
_LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")
_MERGED = ("bin", "sbin", "lib", "lib64")


def run(argv: Sequence[str], *, doing: str, stdin: bytes = b"", folder: Path | None = None) -> bytes:
    """Run a program and return its output.

    Raises ConfigError, with the last lines the program printed, when it fails or isn't there.
    """
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, cwd=folder, timeout=_TIMEOUT)
    except FileNotFoundError:
        raise ConfigError(f"{doing} needs the program {argv[0]!r}, which is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{doing}: {argv[0]} did not end within {_TIMEOUT:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-4:]
        if any("No space left on device" in line for line in said):
            raise ConfigError(f"{doing.split(' (')[0]}: the disk is full; the demo needs 400 MB free")
        raise ConfigError(f"{doing}: {argv[0]} failed ({done.returncode}): {' / '.join(said)[:600]}")
    return done.stdout


def candidates(names: Sequence[str]) -> dict[str, str]:
    """Return name -> SHA-256 of each package that apt would install now.

    Raises ConfigError when apt knows one of them not.
    """
    shown = run(
        ["apt-cache", "show", "--no-all-versions", *names],
        doing="looking up Debian packages (if apt has no lists yet: `apt-get update`)",
    )
    found: dict[str, str] = {}
    for stanza in shown.decode(errors="replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
        if "Package" in fields and "SHA256" in fields:
            found[fields["Package"]] = fields["SHA256"]
    unknown = [name for name in names if name not in found]
    if unknown:
        raise ConfigError(
            f"apt offers no {', '.join(unknown)}: run `apt-get update`; the demo needs Debian 12 or 13 on amd64"
        )
    return found


def needed(names: Sequence[str], cache: Path) -> list[str]:
    """Return what `names` need on a machine that has nothing, themselves included, as apt resolves it.

    Raises ConfigError when apt can't.
    """
    uris = run(
        [
            "apt-get", "-qq", "--print-uris", "--yes", "--no-install-recommends",
            "-o", "Dir::State::status=/dev/null",
            "-o", f"Dir::Cache={cache}", "-o", f"Dir::Cache::archives={cache}",
            "install", *names,
        ],
        doing="resolving Debian packages",
    )  # fmt: skip
    # 'address' name_version_architecture.deb size hash
    return [line.split()[1].split("_")[0] for line in uris.decode().splitlines() if line.startswith("'")]


def fetch(names: Sequence[str], folder: Path) -> list[Path]:
    """Download packages, verified by apt against the archive's signature, and return the files.

    Raises ConfigError when that fails.
    """
    run(
        ["apt-get", "-qq", "download", *names],
        doing="downloading Debian packages (network? `apt-get update`?)",
        folder=folder,
    )
    return sorted(folder.glob("*.deb"))


def merged_root(root: Path) -> Path:
    """Make an empty tree in which /bin, /sbin, /lib and /lib64 lead into /usr."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    return root


def unpack(packages: Iterable[Path], root: Path) -> None:
    """Unpack the files of packages into a tree of `merged_root`, with no script of theirs run.

    Raises ConfigError when a package can't be read or written out.
    """
    excluded = [f"--exclude=./{path}" for path in _LEFT_OUT]
    for package in packages:
        tar = run(["dpkg-deb", "--fsys-tarfile", str(package)], doing=f"reading {package.name}")
        run(
            ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", *excluded, "-C", str(root)],
            doing=f"unpacking {package.name}",
            stdin=tar,
        )
