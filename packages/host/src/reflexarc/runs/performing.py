"""Performing an action on a machine, once; what became of it is a value, never an exception."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace

from reflexarc.errors import (
    ConfigError,
    ConnectionLostError,
    OperationRejectedError,
    OperationTimeoutError,
    PeerProtocolError,
    PlaybookError,
    ReflexarcError,
)
from reflexarc.machine.machine import Machine
from reflexarc.observation import Observation
from reflexarc.playbook import waiting
from reflexarc.playbook.conditions import evaluate
from reflexarc.playbook.state import RunState
from reflexarc.playbook.template import names_in, render
from reflexarc.runs.typing import Typist
from reflexarc.sensing.watcher import Watcher

# Programs that ask for a password throw away what was typed before they had switched the echo off, which is
# just after they printed the prompt; and what isn't echoed can't be read back.
STILL, STILL_AT_MOST = 0.3, 3.0
REACTION_STILL, REACTION_TIMEOUT = 0.08, 1.0


@dataclass(frozen=True)
class Performed:
    """What became of an act; the fields are as in the event `Acted`."""

    delivery: str = "delivered"
    error: str = ""
    sent: bool = False
    fatal: bool = False
    pressed_at: float | None = None
    result: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Performer:
    """Performs the steps of one run. store: keeps the present frame and returns its name."""

    machine: Machine
    watcher: Watcher
    secrets: Mapping[str, str]
    store: Callable[[Observation], str]

    async def perform(self, state: RunState) -> Performed:
        """Perform the action of the present step."""
        guard = self.machine.guard
        sends = guard.sends
        try:
            performed = await self._dispatch(state)
        except (ConnectionLostError, PeerProtocolError) as error:
            performed = Performed("unknown", str(error))
        except OperationTimeoutError as error:
            destructive = state.step.authorisation is not None
            performed = Performed("unknown" if destructive else "failed", str(error))
        except ReflexarcError as error:
            performed = Performed("failed", str(error))
        sent = guard.sends > sends
        if performed.delivery == "failed" and sent and not performed.fatal:
            hint = "; something of it was sent: look at the machine before the step is done again"
            performed = replace(performed, error=performed.error + hint)
        return replace(performed, sent=sent)

    async def _dispatch(self, state: RunState) -> Performed:
        step = state.step
        acts: Mapping[str, Callable[[RunState], Coroutine[None, None, Performed]]] = {
            "press_key": self._press,
            "hotkey": self._press,
            "press_until": self._press_until,
            "type_text": self._type,
            "shutdown": self._shutdown,
            "screenshot": self._screenshot,
            "note": self._note,
            "fail": self._fail,
            "assert": self._assert,
        }
        name = str(step.action)
        if name in acts:
            return await acts[name](state)
        power = self.machine.power
        plain = {
            "power_on": power.on,
            "hard_off": power.off,
            "reset": power.reset,
            "hard_cycle": power.cycle,
        }
        await plain[name]()
        return Performed(result={"power": await power.state()})

    async def _press(self, state: RunState) -> Performed:
        args = state.step.args
        times = args.get("times")
        key = str(args.get("key") or args.get("chord"))
        await self.machine.keyboard.press(key, times=times if isinstance(times, int) else 1)
        return Performed(pressed_at=self.machine.keyboard.pressed_at)

    async def _press_until(self, state: RunState) -> Performed:
        """Press a key until its condition holds, looking after each press; never one press too many."""
        args, condition = state.step.args, state.step.condition_args["until"]
        most, presses = args.get("max"), 0
        seen = await self.watcher.fresh()
        while not evaluate(condition, waiting.sight(state, seen, seen.at, since=float("-inf"))).holds:
            if not isinstance(most, int) or presses >= most:
                break
            await self.machine.keyboard.press(str(args["key"]))
            presses += 1
            seen = await self._reaction()
        else:
            return Performed(result={"presses": presses})
        raise OperationRejectedError(
            f"pressed {args['key']} {most} times, and what it was pressed for does not hold",
            machine=self.machine.name,
            operation="keyboard.press",
            code="press_until",
        )

    async def _reaction(self) -> Observation:
        """What the machine shows after a key: once it has changed and stands still, or after a second."""
        sent = time.monotonic()
        seen = await self.watcher.fresh()
        while seen.changed_at <= sent and time.monotonic() - sent < REACTION_TIMEOUT:
            seen = await self.watcher.next(seen, sent + REACTION_TIMEOUT - time.monotonic()) or seen
        await self.watcher.still(REACTION_STILL, at_most=REACTION_TIMEOUT)
        return await self.watcher.fresh()

    async def _type(self, state: RunState) -> Performed:
        args = state.step.args
        template = str(args["text"])
        roots = {name.split(".", 1)[0] for name in names_in(template)}
        text = self._render(template, state)
        if roots & set(state.registered) and any(unicodedata.category(c) == "Cc" for c in text):
            raise PlaybookError("a value from the screen holds control characters; it is not typed")
        secret = bool(args.get("secret")) or bool(roots & set(self.secrets))
        if secret:
            await self.watcher.still(STILL, at_most=STILL_AT_MOST)
            try:
                await self.machine.keyboard.type(text, secret=True)
            except ConfigError:
                raise ConfigError("the keyboard layout can't type a character of this secret") from None
            typist = None
        else:
            typist = Typist(self.machine.keyboard, self.watcher, self.machine.name)
            await typist.type(text)
        if args.get("enter"):
            await self.machine.keyboard.press("enter")
        corrected = typist.corrected if typist is not None else 0
        result = {"corrected": corrected} if corrected else {}
        return Performed(pressed_at=self.machine.keyboard.pressed_at, result=result)

    async def _shutdown(self, state: RunState) -> Performed:
        timeout = state.step.args.get("timeout")
        await self.machine.power.shutdown(timeout if isinstance(timeout, int | float) else 120.0)
        return Performed(result={"power": await self.machine.power.state()})

    async def _screenshot(self, state: RunState) -> Performed:
        seen = await self.watcher.fresh()
        return Performed(result={"phase": seen.phase, "frame": self.store(seen)})

    async def _note(self, state: RunState) -> Performed:
        return Performed(result={"text": self._render(str(state.step.args["text"]), state, shown=True)})

    async def _fail(self, state: RunState) -> Performed:
        message = self._render(str(state.step.args["message"]), state, shown=True)
        return Performed("failed", message, fatal=True)

    async def _assert(self, state: RunState) -> Performed:
        seen = await self.watcher.fresh()
        condition = state.step.condition_args["that"]
        if evaluate(condition, waiting.sight(state, seen, seen.at, since=float("-inf"))).holds:
            return Performed()
        message = self._render(str(state.step.args.get("message") or "the assertion does not hold"), state)
        return Performed("failed", f"{state.step.name}: {message}", fatal=True)

    def _render(self, template: str, state: RunState, *, shown: bool = False) -> str:
        """Look up variables, results and, unless the text is to be shown, secrets."""
        secrets = dict.fromkeys(self.secrets, "********") if shown else self.secrets
        return render(template, {**state.scope, **secrets})
