"""Preflight: what must be so before a run starts or a single destructive command is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reflexarc.errors import CapabilityError, MachineError
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.machine import Machine


@dataclass(frozen=True)
class Finding:
    """One thing that preflight looked at. critical: nothing destructive may be sent."""

    check: str
    ok: bool
    critical: bool
    detail: str


async def preflight(machine: Machine, needs: Iterable[str]) -> list[Finding]:
    """Look whether the machine offers what is needed, answers, and shows a picture where it is on."""
    missing = sorted(set(needs) - set(machine.offers))
    offers = ", ".join(machine.offers) or "nothing"
    findings = [
        Finding("capabilities", not missing, True, f"missing: {', '.join(missing)}" if missing else offers)
    ]
    on = True
    if "power" in machine.offers:
        try:
            state = await machine.power.state()
            on = state is not PowerState.OFF
            findings.append(Finding("power", True, True, str(state)))
        except MachineError as error:
            findings.append(Finding("power", False, True, str(error)))
    if "screen" in machine.offers and on:
        findings.append(await _picture(machine))
    return findings


async def _picture(machine: Machine) -> Finding:
    try:
        frame = await machine.screen.screenshot()
    except MachineError as error:
        return Finding("screen", False, True, str(error))
    what = f"{frame.width}x{frame.height}, {machine.screen.source()}"
    return Finding("screen", frame.signal, not frame.signal, what if frame.signal else "no signal")


def require(machine: str, findings: Iterable[Finding]) -> None:
    """Raise the error of the first critical finding."""
    for finding in findings:
        if finding.ok or not finding.critical:
            continue
        if finding.check == "capabilities":
            raise CapabilityError(
                f"the playbook needs what no driver of this machine offers ({finding.detail})",
                machine=machine,
                operation="preflight",
            )
        raise MachineError(
            f"preflight: {finding.check}: {finding.detail}", machine=machine, operation="preflight"
        )
