"""What is inside a guest as callers get it: each act is put to the guard first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Literal

from reflexarc.machine.accessibility import Accessibility, App, Element, Found, Ref, Selector, Tree
from reflexarc.machine.capabilities import Apps, Command, Exited, Files, Output, Shell
from reflexarc.machine.guard import Guard


class GuardedShell:
    """Commands in the guest, behind the guard."""

    def __init__(self, shell: Shell, guard: Guard) -> None:
        self._shell = shell
        self._guard = guard

    def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        # Words are not joined here: quotes around a secret would keep it from being masked.
        said = {"command": command.line or list(command.argv), "cwd": command.cwd, "env": sorted(command.env)}
        self._guard.check("shell.exec", **said, timeout=command.timeout)
        return self._shell.run(command)


class GuardedFiles:
    """Files in the guest, behind the guard."""

    def __init__(self, files: Files, guard: Guard) -> None:
        self._files = files
        self._guard = guard

    def read(self, path: str) -> AsyncGenerator[bytes, None]:
        self._guard.check("files.read", path=path)
        return self._files.read(path)

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int = 0o644) -> None:
        self._guard.check("files.write", path=path, mode=oct(mode))
        await self._files.write(path, pieces, mode=mode)


class GuardedApps:
    """Applications of the guest, behind the guard."""

    def __init__(self, apps: Apps, guard: Guard) -> None:
        self._apps = apps
        self._guard = guard

    async def launch(self, name: str) -> None:
        self._guard.check("apps.launch", name=name)
        await self._apps.launch(name)


class GuardedAccessibility:
    """The tree of the desktop, behind the guard."""

    def __init__(self, accessibility: Accessibility, guard: Guard) -> None:
        self._accessibility = accessibility
        self._guard = guard

    async def apps(self) -> Sequence[App]:
        self._guard.watch("observe.tree")
        return await self._accessibility.apps()

    async def dump(
        self,
        app: int | None = None,
        *,
        root: Ref | None = None,
        form: Literal["tree", "outline"] = "tree",
        max_depth: int | None = None,
        max_nodes: int | None = None,
        interactive_only: bool = False,
    ) -> Tree:
        self._guard.watch("observe.tree")
        return await self._accessibility.dump(
            app,
            root=root,
            form=form,
            max_depth=max_depth,
            max_nodes=max_nodes,
            interactive_only=interactive_only,
        )

    async def find(self, selector: Selector, *, limit: int = 20) -> Found:
        self._guard.watch("observe.tree")
        return await self._accessibility.find(selector, limit=limit)

    async def wait(self, selector: Selector, *, gone: bool = False, timeout: float = 30.0) -> Element | None:
        self._guard.watch("observe.tree")
        return await self._accessibility.wait(selector, gone=gone, timeout=timeout)

    async def at(self, x: float, y: float) -> Element | None:
        self._guard.watch("observe.tree")
        return await self._accessibility.at(x, y)

    def changes(self) -> AsyncIterator[None]:
        self._guard.watch("observe.tree")
        return self._accessibility.changes()

    async def act(self, ref: Ref, action: str) -> None:
        self._guard.check("accessibility.action", ref=ref, action=action)
        await self._accessibility.act(ref, action)

    async def set_value(self, ref: Ref, value: str | float | bool) -> None:
        self._guard.check("accessibility.set_value", ref=ref)
        await self._accessibility.set_value(ref, value)

    async def focus(self, ref: Ref) -> None:
        self._guard.check("accessibility.focus", ref=ref)
        await self._accessibility.focus(ref)
