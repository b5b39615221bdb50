"""The guest's screen as the agent sees it, polled; implements `Screen`."""

from __future__ import annotations

import asyncio
import io
import time
import warnings
from collections.abc import AsyncGenerator

from reflexarc.drivers.agent.client import Agent
from reflexarc.errors import PeerProtocolError
from reflexarc.machine.frame import MAX_PIXELS, Frame, Pixels, pixels_of
from reflexarc_wire.replies import ScreenshotReply
from reflexarc_wire.requests import Screenshot

OPERATION = "observe.frames"
FASTEST, SLOWEST, SLOWER = 0.1, 1.0, 1.3
"""Seconds between two pictures: of a screen that changes, of one that is still, and how the one becomes the other."""


class AgentScreen:
    """Pictures through the agent. scale: pixels a point, as the newest picture has it; size: of that, in pixels."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._number = 0
        self.scale = 1.0
        self.size = (0, 0)

    async def screenshot(self) -> Frame:
        return await self._frame(await self._picture())

    async def frames(self) -> AsyncGenerator[Frame, None]:
        seen, pause = b"", FASTEST
        while True:
            reply = await self._picture()
            if reply.image != seen:
                seen, pause = reply.image, FASTEST
                yield await self._frame(reply)
            await asyncio.sleep(pause)
            pause = min(SLOWEST, pause * SLOWER)

    def source(self) -> str:
        return "agent in the guest, polled"

    async def _picture(self) -> ScreenshotReply:
        control = await self._agent.ask_control(Screenshot(), OPERATION)
        # Lossless where it can be asked for: what is read from the glyphs is exact then.
        request = Screenshot(format="png" if control.known.version >= 3 else "jpeg")
        return await control.conversation.ask(request, ScreenshotReply, operation=OPERATION)

    async def _frame(self, reply: ScreenshotReply) -> Frame:
        captured = time.monotonic()
        try:
            pixels = await asyncio.to_thread(decoded, reply.image)
        except ValueError as error:
            raise PeerProtocolError(
                f"its agent sent a picture that can't be shown: {error}",
                machine=self._agent.machine,
                operation=OPERATION,
                raw=reply.image,
            ) from error
        height, width = pixels.shape
        self.size = (int(width), int(height))
        self.scale = reply.scale if 0.1 <= reply.scale <= 16 else 1.0
        self._number += 1
        return Frame(pixels, captured, self._number)


def decoded(image: bytes) -> Pixels:
    """The pixels of a PNG or JPEG file; raises ValueError for any other, and for one of too many pixels."""
    from PIL import Image

    with warnings.catch_warnings():
        # Its size is looked at before a pixel is decoded.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(image), formats=("PNG", "JPEG")) as opened:
                if not 0 < opened.width * opened.height <= MAX_PIXELS:
                    raise ValueError(f"{opened.width}x{opened.height} pixels are no screen")
                return pixels_of(opened)
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise ValueError(str(error)[:200]) from error
