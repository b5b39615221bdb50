"""Power, the drive for images, boot device, saved states, standing still; each verified by what the device reports."""

from __future__ import annotations

from reflexarc.errors import OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import BootDevice, BootSetting
from reflexarc.runs.acting.act import Act, Performed


async def power(act: Act) -> Performed:
    """Switch on, cut the power, reset, or cut it and switch on."""
    device = act.machine.power
    plain = {
        "power_on": device.on,
        "hard_off": device.off,
        "reset": device.reset,
        "hard_cycle": device.cycle,
    }
    await plain[str(act.state.step.action)]()
    return Performed(result={"power": str(await device.state())})


async def shutdown(act: Act) -> Performed:
    """Ask the operating system to shut down."""
    await act.machine.power.shutdown(act.seconds("timeout"))
    return Performed(result={"power": str(await act.machine.power.state())})


async def mount_iso(act: Act) -> Performed:
    """Put an image in the drive."""
    if not act.args.get("cdrom"):
        raise OperationRejectedError(
            "its drive takes CD images only; leave cdrom out",
            machine=act.machine.name,
            operation="media.mount",
            code="no disk drive",
        )
    source = image_of(act)
    await act.machine.media.insert(source)
    found = await act.machine.media.inserted()
    if found is None:
        raise _unfollowed(act, f"took {source}, and the drive is empty")
    return Performed(result={"inserted": found})


def image_of(act: Act) -> str:
    """The image that the step puts in, where it may; raises SafetyError where it may not."""
    return act.host.image(act.text("source"), typed=act.typed("source"))


async def eject(act: Act) -> Performed:
    """Take the image out."""
    await act.machine.media.eject()
    found = await act.machine.media.inserted()
    if found is not None:
        raise _unfollowed(act, f"the drive still holds {found}")
    return Performed()


async def set_boot_device(act: Act) -> Performed:
    """Set what the machine starts from."""
    wanted = setting_of(act)
    await act.machine.boot.set(wanted.device, once=wanted.once)
    found = await act.machine.boot.setting()
    if found.device != wanted.device:
        raise _unfollowed(act, f"it starts from {found.device}, not from {wanted.device}")
    return Performed(result={"device": str(found.device), "once": found.once})


def setting_of(act: Act) -> BootSetting:
    """The setting that the step asks for."""
    return BootSetting(BootDevice(str(act.args["device"])), bool(act.args.get("once")))


async def snapshot(act: Act) -> Performed:
    """Save the state of the machine."""
    await act.machine.snapshot.save(act.text("name"))
    return Performed(result={"name": act.text("name")})


async def rollback(act: Act) -> Performed:
    """Go back to a saved state, which has to be there."""
    name = act.text("name")
    names = [state.name for state in await act.machine.snapshot.saved()]
    if name not in names:
        raise OperationRejectedError(
            f"there is no saved state {name!r}; there are: {', '.join(names) or 'none'}",
            machine=act.machine.name,
            operation="snapshot.restore",
            code="absent",
        )
    await act.machine.snapshot.restore(name)
    return Performed(result={"name": name})


async def freeze(act: Act) -> Performed:
    """Stop the processors."""
    await act.machine.freeze.freeze()
    return Performed()


async def unfreeze(act: Act) -> Performed:
    """Let the processors go on."""
    await act.machine.freeze.thaw()
    return Performed()


def _unfollowed(act: Act, problem: str) -> OperationTimeoutError:
    return OperationTimeoutError(
        f"{problem}; look at the device", machine=act.machine.name, operation=act.state.step.operation or ""
    )
