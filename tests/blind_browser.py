"""A headless Chromium that does what a person does: keys, clicks, looks. Spoken to by its own DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

FOUND = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
CODES = {"ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "Backspace": 8, "Escape": 27}
TEXTS = {"Enter": "\r"}


class Browser:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.recv(timeout=30))
            if said.get("method") == "Runtime.exceptionThrown":
                self.problems.append(said["params"]["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            if said.get("method") == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.problems.append(f"{said['params']['entry']['text']} {said['params']['entry'].get('url', '')}".strip())
            if said.get("id") == self._number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                found: dict[str, Any] = said["result"]
                return found

    def screen(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.do("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url: str) -> None:
        self.do("Page.navigate", url=url)

    def reload(self) -> None:
        self.do("Page.reload")

    def value(self, script: str) -> Any:
        """What a JavaScript expression is worth."""
        result = self.do("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 20.0) -> Any:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while True:
            try:
                if found := self.value(script):
                    return found
            except RuntimeError:  # the page is being loaded
                pass
            if time.monotonic() > end:
                raise AssertionError(f"never true: {script}; the page says: {self.value('document.body.innerText')!r}; {self.problems}")
            time.sleep(0.05)

    def key(self, key: str) -> None:
        code = CODES.get(key, ord(key.upper()[0]))
        text = TEXTS.get(key, key if len(key) == 1 else "")
        self.do("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        self.do("Input.insertText", text=text)

    def click(self, selector: str, times: int = 1) -> None:
        """In the middle of an element, where a person would; it must be what is there."""
        place = json.dumps(selector)
        self.wait(f"document.querySelector({place})?.getClientRects().length")
        x, y, is_there = self.value(
            f"(() => {{ const e = document.querySelector({place}); const r = e.getBoundingClientRect(); const x = r.x + r.width / 2, "
            "y = r.y + r.height / 2; const hit = document.elementFromPoint(x, y); return [x, y, e === hit || e.contains(hit)]; })()"
        )
        assert is_there, f"{selector} cannot be clicked: something else is at {x}, {y}"
        for count in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.do("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    assert FOUND
    command = (FOUND, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-port=0", "--remote-allow-origins=*", "about:blank")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = folder / "DevToolsActivePort"
        end = time.monotonic() + 60
        while not told.is_file() or not told.read_text().strip():
            assert process.poll() is None and time.monotonic() < end, "chromium did not start"
            time.sleep(0.1)
        port = int(told.read_text().split()[0])
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
            (tab,) = [one for one in json.load(answer) if one["type"] == "page"]
        with connect(tab["webSocketDebuggerUrl"], max_size=2**26, open_timeout=30) as socket:
            yield Browser(socket)
    finally:
        process.kill()
        process.wait()
