"""Preflight: what must be so before a run starts or a single destructive command is sent; `doctor` looks further."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from reflexarc.errors import CapabilityError, MachineError
from reflexarc.machine.capabilities import BootDevice, PowerState
from reflexarc.machine.frame import Frame
from reflexarc.machine.machine import Machine
from reflexarc.sensing.console import ConsoleReader


class Severity(StrEnum):
    """How much a finding matters. critical: nothing destructive may be sent."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. fix: what to do about it, empty where nothing has to be done."""

    check: str
    severity: Severity
    detail: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        return self.severity in (Severity.OK, Severity.INFO)

    @property
    def critical(self) -> bool:
        return self.severity is Severity.CRITICAL

    def as_dict(self) -> dict[str, str]:
        """As JSON."""
        return {"check": self.check, "severity": self.severity, "detail": self.detail, "fix": self.fix}


async def preflight(machine: Machine, needs: Iterable[str]) -> list[Finding]:
    """Look whether the machine offers what is needed, answers, and shows a picture where it is on."""
    findings = [_offered(machine, needs)]
    power, state = await _powered(machine)
    findings += [power] if power is not None else []
    if state is not PowerState.OFF:
        found, _ = await _pictured(machine)
        findings += found
    return findings


async def examine(machine: Machine, keymap: str) -> list[Finding]:
    """Preflight as `doctor` wants it: everything that the machine offers is asked, nothing is changed.

    keymap: the keyboard layout that texts are typed in.
    """
    power, state = await _powered(machine)
    findings = [power] if power is not None else [_lacking("power")]
    if state is PowerState.OFF:
        findings.append(Finding("signal", Severity.INFO, "it is off and shows nothing"))
    else:
        found, frame = await _pictured(machine)
        findings += found or [_lacking("screen")]
        findings += [_read(frame)] if frame is not None else []
    keyboard = Finding("keyboard", Severity.OK, f"present, layout {keymap}")
    findings.append(keyboard if "keyboard" in machine.offers else _lacking("keyboard"))
    for name, ask in _ASKED.items():
        findings.append(await _asked(machine, name, ask) if name in machine.offers else _lacking(name))
    return findings


def require(machine: str, findings: Iterable[Finding]) -> None:
    """Raise the error of the first critical finding."""
    for finding in findings:
        if not finding.critical:
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


def _offered(machine: Machine, needs: Iterable[str]) -> Finding:
    missing = sorted(set(needs) - set(machine.offers))
    if missing:
        fix = "add a driver that offers it to the machine's entry in the inventory"
        return Finding("capabilities", Severity.CRITICAL, f"missing: {', '.join(missing)}", fix)
    return Finding("capabilities", Severity.OK, ", ".join(machine.offers) or "nothing")


async def _powered(machine: Machine) -> tuple[Finding | None, PowerState | None]:
    if "power" not in machine.offers:
        return None, None
    try:
        state = await machine.power.state()
    except MachineError as error:
        return Finding("power", Severity.CRITICAL, str(error), "look at the device that switches it"), None
    known = state is not PowerState.UNKNOWN
    return Finding("power", Severity.OK if known else Severity.WARNING, str(state)), state


async def _pictured(machine: Machine) -> tuple[list[Finding], Frame | None]:
    """What the screen of a machine that isn't off gives, none where it has no screen."""
    if "screen" not in machine.offers:
        return [], None
    try:
        frame = await machine.screen.screenshot()
    except MachineError as error:
        fix = "look at the device that captures the screen"
        return [Finding("screen", Severity.CRITICAL, str(error), fix)], None
    if not frame.signal:
        fix = "wake or connect the screen's source"
        return [Finding("signal", Severity.CRITICAL, "it is on, and no signal comes", fix)], None
    size = f"{frame.width}x{frame.height}, {machine.screen.source()}"
    return [Finding("signal", Severity.OK, "a signal"), Finding("screen", Severity.OK, size)], frame


def _read(frame: Frame) -> Finding:
    """What the exact reader makes of a frame: the size of its text, or that there is none."""
    reader = ConsoleReader()
    text, cell = reader.read(frame), reader.cell(0, 0)
    if text is None or cell is None:
        return Finding("reader", Severity.INFO, f"no text console is seen in {frame.width}x{frame.height}")
    grid = f"{text.columns}x{len(text.lines)} characters of {cell.width}x{cell.height} pixels"
    read = f"{grid}, {text.confidence:.0%} read"
    if text.confidence < 0.9:
        fix = "its font is unknown; set the console's font to one that is known, such as VGA or Terminus"
        return Finding("reader", Severity.WARNING, read, fix)
    return Finding("reader", Severity.OK, read)


def _lacking(name: str) -> Finding:
    return Finding(name, Severity.INFO, "no driver of this machine offers it")


async def _asked(machine: Machine, name: str, ask: Callable[[Machine], Awaitable[str]]) -> Finding:
    try:
        return Finding(name, Severity.OK, await ask(machine))
    except MachineError as error:
        return Finding(name, Severity.WARNING, str(error))


async def _present(machine: Machine) -> str:
    return "offered"


async def _media(machine: Machine) -> str:
    return await machine.media.inserted() or "an empty drive"


async def _boot(machine: Machine) -> str:
    setting = await machine.boot.setting()
    if setting.device is BootDevice.NONE:
        return "its own order"
    return f"{setting.device}{', for the next start only' if setting.once else ''}"


async def _freeze(machine: Machine) -> str:
    return "it is frozen" if await machine.freeze.frozen() else "not frozen"


_ASKED: dict[str, Callable[[Machine], Awaitable[str]]] = {
    "console": _present,
    "pointer": _present,
    "media": _media,
    "boot": _boot,
    # To list what is saved a driver may have to add a disk to the machine.
    "snapshot": _present,
    "freeze": _freeze,
}
