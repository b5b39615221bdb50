"""Elements of the guest's accessibility tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from reflexarc.errors import OperationRejectedError, PlaybookError
from reflexarc.machine.accessibility import Element, Ref, Selector
from reflexarc.machine.elements import Elements
from reflexarc.playbook.template import look_up, sole_name
from reflexarc.runs.acting.act import Act, Performed, has_controls
from reflexarc.runs.acting.reaching import reached


async def press(act: Act) -> Performed:
    """Press an element."""
    return await _perform(act, "AXPress")


async def perform(act: Act) -> Performed:
    """Perform one of an element's actions."""
    return await _perform(act, act.text("action"))


async def _perform(act: Act, action: str) -> Performed:
    by_ref = act.machine.accessibility.act
    return await _on(act, lambda ref: by_ref(ref, action), lambda it, one: it.act(one, action))


async def set_value(act: Act) -> Performed:
    """Set an element's value."""
    given = act.args.get("value")
    value = act.text("value") if isinstance(given, str) else given
    if isinstance(given, str) and act.holds_results(given) and has_controls(str(value)):
        raise PlaybookError("a value from the machine holds control characters; it is not set")
    assert isinstance(value, str | float | int)
    by_ref = act.machine.accessibility.set_value
    return await _on(act, lambda ref: by_ref(ref, value), lambda it, one: it.set_value(one, value))


async def focus(act: Act) -> Performed:
    """Give an element the focus."""
    return await _on(act, act.machine.accessibility.focus, lambda it, one: it.focus(one))


def selector_of(act: Act, given: Mapping[str, object]) -> Selector:
    """The selector that arguments make, with names looked up; raises PlaybookError where that leaves a text empty."""
    rendered = {key: act.rendered(value) if isinstance(value, str) else value for key, value in given.items()}
    for key, value in rendered.items():
        if value == "":
            raise PlaybookError(
                f"{key} of the element has no text once its names are looked up; nothing was sent"
            )
    return Selector.of(rendered)


async def _on(
    act: Act,
    by_ref: Callable[[Ref], Awaitable[None]],
    by_selector: Callable[[Elements, Selector], Awaitable[Element]],
) -> Performed:
    template = act.args.get("ref")
    if isinstance(template, str):
        ref = _registered(act, template)
        await reached(act, lambda: by_ref(ref))
        return Performed(result={"ref": ref})
    spec = act.state.step.spec
    assert spec is not None, "the step has an action"
    selector = selector_of(act, {key: act.args.get(key) for key in spec.selects})
    elements = Elements(act.machine.accessibility, act.machine.name)
    element = await reached(act, lambda: by_selector(elements, selector))
    return Performed(
        result={"ref": element.ref, "role": element.native or element.role, "name": element.name}
    )


def _registered(act: Act, template: str) -> Ref:
    """The reference behind a name: one that this run found, in this process."""
    name = sole_name(template) or ""
    if name.split(".", 1)[0] not in act.state.registered:
        raise PlaybookError(f"ref is one that an earlier step of this run registered, and {name!r} is none")
    ref = look_up(name, act.state.registered)
    if not isinstance(ref, str | int) or ref == "" or not act.watcher.told(ref):
        raise OperationRejectedError(
            f"{name} was found by an earlier process, or never; wait for the element again, or name it",
            machine=act.machine.name,
            operation=act.state.step.operation or "",
            code="stale_ref",
        )
    return ref
