"""Headless Chromium over its debugging pipe: opens a page, and tells what it logged, fetched and shows."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Message = dict[str, Any]


class Page:
    """One tab. Commands and events are JSON messages that end with a zero byte."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out = os.fdopen(to_browser, "wb")
        self._in = os.fdopen(from_browser, "rb")
        self._rest = b""
        self._n_sent = 0
        self._session: str | None = None
        self.events: list[Message] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == self._n_sent:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> Message:
        while b"\0" not in self._rest:
            data = os.read(self._in.fileno(), 1 << 16)
            assert data, "Chromium has ended"
            self._rest += data
        text, self._rest = self._rest.split(b"\0", 1)
        message: Message = json.loads(text)
        return message

    def open(self, path: Path, *, width: int = 1000, height: int = 800, dark: bool = False) -> None:
        self.events.clear()
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def move_pointer(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path) -> None:
        """What the window shows."""
        data = self.call("Page.captureScreenshot")["data"]
        path.write_bytes(base64.b64decode(data))

    def problems(self) -> list[str]:
        """Whatever was logged as a warning or an error, and exceptions."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(parameters["args"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(json.dumps(parameters["entry"]))
        return found

    def requested_urls(self) -> list[str]:
        sent = (event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [parameters["request"]["url"] for parameters in sent]


@contextmanager
def open_chromium(profile: Path) -> Iterator[Page]:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    browser_reads, we_write = os.pipe()
    we_read, browser_writes = os.pipe()
    # The browser reads descriptor 3 and writes descriptor 4: put our pipes there, from where they cannot collide.
    code = (
        "import fcntl, os, sys; reads, writes = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]);"
        "os.dup2(reads, 3); os.dup2(writes, 4); os.execv(sys.argv[3], sys.argv[3:])"
    )
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
    flags.append(f"--user-data-dir={profile}")
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(browser_reads), str(browser_writes), browser, *flags, "about:blank"],
        pass_fds=(browser_reads, browser_writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        yield Page(we_write, we_read)
    finally:
        process.terminate()
        process.wait()
