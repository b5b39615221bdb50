from __future__ import annotations

import asyncio

from tests.contract.rigs import Rig, said


def test_reading_waits_for_text_and_what_is_written_is_echoed(system: Rig) -> None:
    async def run() -> str:
        async with system() as machine:
            await machine.power.on()
            heard = await said(machine.console, "READY")
            reading = asyncio.create_task(said(machine.console, "serial [grüezi]"))
            await asyncio.sleep(0)
            assert not reading.done()
            await machine.console.write("grüezi\n")
            return heard + await reading

    heard = asyncio.run(run())
    assert heard.count("READY") == 1 + heard.count("Power down")  # other tests may have restarted it
    assert heard.count("serial [grüezi]") == 1
