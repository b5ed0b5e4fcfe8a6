"""A headless Chromium that is told what to do over two pipes (the DevTools protocol), so that pages are tested in a real browser.

No port is opened and nothing is installed. Used by the browser tests and by benchmarks/report_size.py.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
TIMEOUT_S = 60.0


def installed() -> str | None:
    """The browser's command; None when there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


class ChromiumError(RuntimeError):
    """The browser did not answer, or the page's script threw."""


class Chromium:
    """One page of one browser; `with Chromium(command) as page`."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __enter__(self) -> Chromium:
        self._home = tempfile.mkdtemp()
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()

        def as_three_and_four() -> None:
            os.dup2(to_browser, 1003)
            os.dup2(from_browser, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)

        self._process = subprocess.Popen(
            [self._command, *FLAGS, f"--user-data-dir={self._home}", "about:blank"],
            preexec_fn=as_three_and_four, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._unread = b""
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=TIMEOUT_S)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._home, ignore_errors=True)  # the browser's children may still be writing there

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command. Raises ChromiumError."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read(method)).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise ChromiumError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            if not select.select([self._from], [], [], TIMEOUT_S)[0]:
                raise ChromiumError(f"no answer to {waiting_for} within {TIMEOUT_S:.0f} s")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise ChromiumError(f"the browser has gone, while asked {waiting_for}")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def open(self, address: str, until: str = "document.readyState === 'complete'") -> float:
        """Go to the page and wait until the expression holds; the seconds it took, from the command on."""
        began = time.perf_counter()
        self.ask("Page.navigate", url=address)
        self.wait(f"location.href === {json.dumps(address)} && document.body !== null && ({until})")
        return time.perf_counter() - began

    def wait(self, condition: str) -> None:
        """Until the expression holds. Raises ChromiumError."""
        end = time.monotonic() + TIMEOUT_S
        while not self.run(condition):
            if time.monotonic() > end:
                raise ChromiumError(f"this never came true: {condition}")
            time.sleep(0.01)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, promises awaited. Raises ChromiumError for what it throws."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ChromiumError(f"{details.get('exception', {}).get('description') or details['text']} in {script}")
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key as the keyboard sends it: ArrowDown, Tab, Enter."""
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36}[key]
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {})
            )

    def point(self, x: float, y: float, press: bool = False) -> None:
        """The mouse at a point of the window, in CSS pixels."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if press:
            for kind in ("mousePressed", "mouseReleased"):
                self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """The window's size in CSS pixels, the colour scheme and the medium."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=scheme)

    def screenshot(self, path: Path) -> None:
        """What the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
