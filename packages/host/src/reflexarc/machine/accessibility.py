"""The accessibility tree of a guest's desktop: what it is made of, and what can be asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Ref: TypeAlias = str | int
"""Names one live element, inside the connection that told it; a number is never given to another one."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which elements are meant; what is None or empty is not asked.

    role: by the common name (`AXButton`) or by the guest's own (`push button`). name, value: the whole of it.
    text: within the name or the value. showing: only what is on the screen.
    """

    role: str | None = None
    name: str | None = None
    value: str | None = None
    text: str | None = None
    enabled: bool | None = None
    focused: bool | None = None
    showing: bool = True

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Selector:
        """The selector of plain data that was checked; what has another type is not asked."""

        def text(key: str) -> str | None:
            value = given.get(key)
            return value if isinstance(value, str) else None

        def flag(key: str) -> bool | None:
            value = given.get(key)
            return value if isinstance(value, bool) else None

        return cls(
            text("role"),
            text("name"),
            text("value"),
            text("text"),
            flag("enabled"),
            flag("focused"),
            flag("showing") is not False,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked, so that any element is meant."""
        texts = (self.role, self.name, self.value, self.text)
        return not any(texts) and self.enabled is None and self.focused is None

    def fits_state(self, element: Element) -> bool:
        """Whether it is enabled, and has the focus, as asked; one that doesn't say is neither enabled nor disabled."""
        enabled = self.enabled is None or element.enabled is self.enabled
        return enabled and (self.focused is None or bool(element.focused) is self.focused)

    def __str__(self) -> str:
        """In words: `push button "Build", enabled`."""
        words = [self.role or "element", *([f'"{self.name}"'] if self.name else [])]
        words += [f'of value "{self.value}"'] * bool(self.value) + [f'with "{self.text}"'] * bool(self.text)
        more = [] if self.enabled is None else ["enabled" if self.enabled else "disabled"]
        more += [] if self.focused is None else ["focused" if self.focused else "not focused"]
        return ", ".join([" ".join(words), *more, *([] if self.showing else ["showing or not"])])


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of screen points, from the top left of the primary display."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Element:
    """One element; native: its role by the guest's own name. path: the names of its ancestors, outermost first."""

    ref: Ref
    role: str
    native: str = ""
    subrole: str = ""
    name: str = ""
    value: str | float | bool | None = None
    enabled: bool | None = None
    focused: bool | None = None
    area: Area | None = None
    actions: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    children: tuple[Element, ...] = ()

    @property
    def app(self) -> str:
        """The name of its application."""
        return self.path[0] if self.path else ""

    @property
    def value_text(self) -> str:
        """Its value as selectors and reports spell it."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return "" if self.value is None else self.value if isinstance(self.value, str) else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class App:
    """A running application that offers a tree."""

    name: str
    pid: int
    frontmost: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree that was read, in full or as an outline; capped: the bound that was met where it isn't complete."""

    root: Element | None = None
    outline: str = ""
    complete: bool = True
    capped: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, in the order of the tree; capped: the bound that was met where it isn't complete."""

    elements: tuple[Element, ...] = ()
    complete: bool = True
    capped: str = ""


class Accessibility(Protocol):
    """Reading a desktop's elements, and acting on them by identity.

    An act raises OperationRejectedError where it was not delivered (code `stale_ref` or `ambiguous_ref`: read
    again), and ConnectionLostError where it may have been; it is never repeated. A guest whose agent doesn't
    answer raises ConnectError before anything was sent.
    """

    async def apps(self) -> Sequence[App]: ...

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
        """Read the tree of an application, by its process; without one, of that in front."""
        ...

    async def find(self, selector: Selector, *, limit: int = 20) -> Found:
        """Search every application that isn't hung."""
        ...

    async def wait(self, selector: Selector, *, gone: bool = False, timeout: float = 30.0) -> Element | None:
        """Return the first element as soon as there is one, None as soon as there is none with `gone`.

        Raises OperationTimeoutError where that does not come in time.
        """
        ...

    async def at(self, x: float, y: float) -> Element | None:
        """The innermost element at a point."""
        ...

    async def act(self, ref: Ref, action: str) -> None:
        """Perform one of the element's actions, such as `AXPress`."""
        ...

    async def set_value(self, ref: Ref, value: str | float | bool) -> None: ...

    async def focus(self, ref: Ref) -> None: ...

    def changes(self) -> AsyncIterator[None]:
        """Yield whenever the tree may have changed, also when the agent came or went; several at once are one.

        The first is told at once when changes are told from then on: what was read before may be old.
        """
        ...
