"""What runs in kvm-pilot's environment: its analyser over a QEMU driver, OCR rules and a model that costs nothing."""

from __future__ import annotations

import base64 as b64
import importlib
import json
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

vision: Any = importlib.import_module("kvm_pilot.vision")
base: Any = importlib.import_module("kvm_pilot.vision.base")
tesserocr: Any = importlib.import_module("tesserocr")
Image: Any = importlib.import_module("PIL.Image")


class QemuDriver:
    """A machine as kvm-pilot's protocols want one: power, snapshots, on-device OCR, keys."""

    host = "stimulus"

    def __init__(self, monitor: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(monitor)
        self._qmp = self._socket.makefile("rw")
        self._qmp.readline()
        self._execute("qmp_capabilities")
        self._shot = Path(tempfile.mkdtemp(dir=Path(monitor).parent)) / "shot"
        tessdata = str(next(Path("/usr/share/tesseract-ocr").glob("*/tessdata")))
        self._ocr = tesserocr.PyTessBaseAPI(path=tessdata, lang="eng", psm=tesserocr.PSM.SINGLE_BLOCK)

    def _execute(self, command: str, **arguments: object) -> Any:
        self._qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._qmp.flush()
        while "event" in (answer := json.loads(self._qmp.readline())):
            pass
        return answer["return"]

    def is_powered_on(self) -> bool:
        return bool(self._execute("query-status")["running"])

    def has_video_signal(self) -> bool:
        return True

    def snapshot(self) -> bytes:
        self._execute("screendump", filename=str(self._shot), format="png")
        return self._shot.read_bytes()

    def snapshot_base64(self) -> str:
        return b64.b64encode(self.snapshot()).decode()

    def snapshot_ocr(self) -> str:
        self._execute("screendump", filename=str(self._shot))
        self._ocr.SetImage(Image.open(self._shot))
        return str(self._ocr.GetUTF8Text())

    def press_key(self, key: str) -> None:
        qcode = {"Enter": "ret"}[key]
        events = [
            {"type": "key", "data": {"down": down, "key": {"type": "qcode", "data": qcode}}}
            for down in (True, False)
        ]
        self._execute("input-send-event", events=events)


class FreeModel:
    """A vision model without latency that knows nothing: what it adds in reality is left out."""

    def classify(self, image_b64: str, hint: str = "") -> Any:
        return base.ScreenState(base.PHASE_UNKNOWN, "", 0.0, "", image_b64)


def main(monitor: str) -> None:
    driver = QemuDriver(monitor)
    analyzer = vision.ScreenAnalyzer(driver, FreeModel(), ocr_rules=vision.DEFAULT_OCR_RULES)
    while sys.stdin.readline():
        print("waiting", flush=True)
        analyzer.wait_for_state(base.PHASE_GRUB_MENU)
        driver.press_key("Enter")


if __name__ == "__main__":
    main(sys.argv[1])
