"""The inside of a played machine: commands, files, applications."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from reflexarc.drivers.replay.devices import acting, rejected
from reflexarc.drivers.replay.player import Player
from reflexarc.drivers.replay.script import Ran, ReplayGuest
from reflexarc.machine.capabilities import Command, Exited, Output, Stream

PIECE = 4096
NOT_FOUND = 127


class ReplayShell:
    """Notes `shell.exec` with the command, its variables before it; implements `Shell`."""

    def __init__(self, player: Player, guest: ReplayGuest) -> None:
        self._player = player
        self._guest = guest

    async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        name = command.line or " ".join(command.argv)
        await self._player.inside("shell.exec")
        given = "".join(f"{key}={value} " for key, value in command.env.items())
        with acting(self._player, "shell.exec", given + name):
            ran = self._guest.commands.get(name) or Ran(stderr=b"not found\n", status=NOT_FOUND)
        for entry in ran.entries:
            self._player.play(entry)
        for stream, data in ((Stream.STDOUT, ran.stdout), (Stream.STDERR, ran.stderr)):
            for start in range(0, len(data), PIECE):
                yield Output(stream, data[start : start + PIECE])
        if ran.status is not None:
            yield Exited(ran.status)


class ReplayFiles:
    """Keeps files in memory, notes `files.read` and `files.write` with the path; implements `Files`."""

    def __init__(self, player: Player, guest: ReplayGuest) -> None:
        self._player = player
        self._files = dict(guest.files)

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        await self._player.inside("files.read")
        if path not in self._files:
            raise rejected(self._player, "files.read", f"there is no file {path}", "absent")
        with acting(self._player, "files.read", path):
            data = self._files[path]
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        await self._player.inside("files.write")
        data = b"".join([piece async for piece in pieces])
        with acting(self._player, "files.write", path):
            self._files[path] = data


class ReplayApps:
    """Notes `apps.launch` with the name; implements `Apps`."""

    def __init__(self, player: Player, guest: ReplayGuest) -> None:
        self._player = player
        self._guest = guest

    async def launch(self, name: str) -> None:
        await self._player.inside("apps.launch")
        if name not in self._guest.apps:
            raise rejected(self._player, "apps.launch", f"its desktop has no application {name!r}", "absent")
        with acting(self._player, "apps.launch", name):
            pass
