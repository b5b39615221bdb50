"""The sensing ladder: the cheapest and most authoritative sensor first; each answers or passes.

It has no clock and does no I/O. The order: power, signal, serial (only where there is no frame), unchanged,
text together with needles, accessibility; then the phase is unknown. A guest's tree is cheaper and as exact, but
it tells that a desktop runs, not that it shows: it is asked where nothing else answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Frame
from reflexarc.machine.geometry import Rect
from reflexarc.observation import UNKNOWN, Observation, Sighting
from reflexarc.sensing.dispute import against
from reflexarc.sensing.needle import Patch
from reflexarc.sensing.power import read_power
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.serial import plain, read_serial
from reflexarc.sensing.signal import read_signal
from reflexarc.sensing.text import Reading, TextRung
from reflexarc.sensing.tree import TreeReading, read_tree
from reflexarc.sensing.unchanged import Stillness, read_unchanged
from reflexarc.sensing.verdict import Answer


@dataclass(frozen=True)
class Readings:
    """What is known of a machine at one moment, None where it has no such sensor or nothing came yet.

    at: seconds of `time.monotonic()`. serial: the newest text of the serial console, as it came.
    serial_end: how many characters ever came. serial_at: when the last of them did. tree: of the guest's desktop.
    elements: what was looked for in it; elements_changed_at: when that was last found to be other than before;
    tree_moved_at: when it last told of any change, which counts where there is no picture.
    """

    at: float
    power: PowerState | None = None
    frame: Frame | None = None
    serial: str = ""
    serial_end: int = 0
    serial_at: float = float("-inf")
    tree: TreeReading | None = None
    elements: tuple[Sighting, ...] = ()
    elements_changed_at: float = float("-inf")
    tree_moved_at: float = float("-inf")


class Ladder:
    """Concludes the phase of one machine from its readings, in the order they came.

    sought: pictures to look for on every frame, by the key under which observations tell of them.
    """

    def __init__(self, recognisers: Recognisers) -> None:
        self.recognisers = recognisers
        self.sought: Mapping[str, Patch] = {}
        self._found: dict[str, bool] = {}
        self._text = TextRung(recognisers)
        self._stillness = Stillness(self._text)
        self._classified: Observation | None = None
        self._without_picture: object = None
        self._changed_at = 0.0
        self._serial = ("", "")

    def cell(self, row: int, column: int) -> Rect | None:
        """The pixels of a character cell of the text read last, None where none was read."""
        return self._text.cell(row, column)

    def learn(self, recognisers: Recognisers) -> None:
        """Recognise by these from now on; what was concluded by others is not repeated."""
        self.recognisers = recognisers
        self._text.learn(recognisers)
        self._classified = None

    def read(self, readings: Readings) -> Observation:
        """Conclude what the machine shows; always answers, with the phase `unknown` where no rung does."""
        seen = self._read(readings)
        moved_at = readings.tree_moved_at if readings.frame is None else float("-inf")
        changed_at = max(seen.changed_at, readings.elements_changed_at, moved_at)
        if readings.elements or changed_at != seen.changed_at:
            seen = replace(seen, elements=readings.elements, changed_at=changed_at)
        answer = read_tree(self.recognisers, readings.tree) if seen.phase == UNKNOWN else None
        if answer is None or readings.tree is None:
            return seen
        return replace(
            seen,
            phase=answer.phase,
            confidence=answer.confidence,
            rung=answer.rung,
            origin=answer.rung,
            complete=answer.complete,
            at=min(seen.at, readings.tree.at),
            guess=None,
        )

    def _read(self, readings: Readings) -> Observation:
        if readings.serial is not self._serial[0]:
            self._serial = (readings.serial, plain(readings.serial))
        off = read_power(readings.power)
        frame = None if off else readings.frame
        if frame and frame.signal:
            return self._look(readings, frame)
        answer = off or read_signal(frame) or read_serial(self.recognisers, self._serial[1])
        state = (readings.power, frame is None, readings.serial_end)
        if state != self._without_picture:
            self._without_picture = state
            self._changed_at = readings.at
        self._stillness.forget()
        return self._observe(readings, Reading(answer, None), frame)

    def disputed(self, seen: Observation, readings: Readings) -> str:
        """The phase that another authoritative rung speaks for against what was concluded from these readings.

        A picture speaks against power that is said to be off; serial text does where it is newer than the picture; a
        guest's tree always, since it was asked just now.
        """
        phases, frame = self.recognisers.phases, readings.frame
        other = against(seen, read_tree(self.recognisers, readings.tree), phases)
        if other:
            return other
        if seen.origin == "power":
            reading = self._text.read(frame) if frame and frame.signal else None
            return against(seen, reading.answer, phases) if reading else ""
        if readings.serial_at <= seen.changed_at:
            return ""
        return against(seen, read_serial(self.recognisers, plain(readings.serial)), phases)

    def _look(self, readings: Readings, frame: Frame) -> Observation:
        still = self._stillness.see(frame)
        if not still:
            self._found = {}
        self._changed_at = self._stillness.changed_at
        self._without_picture = None
        repeated = read_unchanged(self._classified) if still else None
        if repeated:
            return self._observe(readings, Reading(repeated, repeated.screen), frame)
        reading = self._text.read(frame)
        self._stillness.cursor_is_in(self._text.cursor_cell(reading.screen))
        self._classified = self._observe(readings, reading, frame)
        return self._classified

    def _observe(self, readings: Readings, reading: Reading, frame: Frame | None) -> Observation:
        answer = reading.answer or Answer(UNKNOWN, reading.confidence, "none")
        repeats = self._classified if answer.rung == "unchanged" else None
        return Observation(
            phase=answer.phase,
            confidence=answer.confidence,
            rung=answer.rung,
            origin=repeats.origin if repeats else answer.rung,
            complete=answer.complete,
            at=frame.captured if frame else readings.at,
            changed_at=self._changed_at,
            screen=reading.screen,
            serial=self._serial[1],
            serial_end=readings.serial_end,
            frame=frame.number if frame else None,
            guess=reading.guess,
            needles=tuple((key, self._seek(key, frame)) for key in self.sought)
            if frame and frame.signal
            else (),
        )

    def _seek(self, key: str, frame: Frame) -> bool:
        """Tell whether a picture is on the frame; looked for once as long as the frame stands still."""
        if key not in self._found:
            self._found[key] = self.sought[key].is_on(frame.pixels)
        return self._found[key]
