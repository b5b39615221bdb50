"""Performing an action on a machine, once; what became of it is a value, never an exception."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from reflexarc.errors import (
    ConnectionLostError,
    OperationTimeoutError,
    PeerProtocolError,
    ReflexarcError,
)
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.machine.machine import Machine
from reflexarc.observation import Observation
from reflexarc.playbook.state import RunState
from reflexarc.runs.acting import device, doubt, element, guest, keyboard, looking, pointer, serial
from reflexarc.runs.acting.act import Act, Performed
from reflexarc.sensing.watcher import Watcher

__all__ = ["ACTS", "Performed", "Performer"]

# Action -> what performs it; `wait` is the engine's.
ACTS: Mapping[str, Callable[[Act], Awaitable[Performed]]] = {
    "press_key": keyboard.press,
    "hotkey": keyboard.press,
    "press_until": keyboard.press_until,
    "type_text": keyboard.type_text,
    "click": pointer.click,
    "double_click": pointer.double_click,
    "move": pointer.move,
    "drag": pointer.drag,
    "scroll": pointer.scroll,
    "ax_press": element.press,
    "ax_action": element.perform,
    "ax_set_value": element.set_value,
    "ax_focus": element.focus,
    "launch_app": guest.launch_app,
    "exec": guest.execute,
    "run_serial": serial.run_serial,
    "upload": guest.upload,
    "download": guest.download,
    "power_on": device.power,
    "shutdown": device.shutdown,
    "hard_off": device.power,
    "reset": device.power,
    "hard_cycle": device.power,
    "mount_iso": device.mount_iso,
    "msd_disconnect": device.eject,
    "set_boot_device": device.set_boot_device,
    "snapshot": device.snapshot,
    "rollback": device.rollback,
    "freeze": device.freeze,
    "unfreeze": device.unfreeze,
    "screenshot": looking.screenshot,
    "note": looking.note,
    "fail": looking.fail,
    "assert": looking.check,
}


@dataclass(frozen=True)
class Performer:
    """Performs the steps of one run. store: keeps the present frame and returns its name."""

    machine: Machine
    watcher: Watcher
    secrets: Mapping[str, str]
    store: Callable[[Observation], str]
    host: HostPaths = field(default_factory=HostPaths)

    async def perform(self, state: RunState) -> Performed:
        """Perform the action of the present step."""
        guard = self.machine.guard
        sends = guard.sends
        try:
            performed = await ACTS[str(state.step.action)](self._act(state))
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

    async def is_effective(self, state: RunState) -> bool:
        """Tell whether the device reports the effect of the present step's act, of which nobody knows."""
        return await doubt.is_effective(self._act(state))

    def _act(self, state: RunState) -> Act:
        return Act(state, self.machine, self.watcher, self.secrets, self.store, self.host)
