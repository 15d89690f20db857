"""Drives a real Chromium over its debugging pipe, with nothing but the standard library."""

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


class Page:
    """One page: evaluates scripts, sends keys and mouse events, and notes what went wrong."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer
        self._sent, self._session, self._loads = 0, None, 0
        self.requests, self.complaints = [], []

    def call(self, method, **params):
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self):
        parts = []
        while (byte := self._reader.read(1)) != b"\0":
            assert byte, "the browser went away"
            parts.append(byte)
        message = json.loads(b"".join(parts))
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(params)
        elif method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append("a dialog opened: a name of the recording was run as a script")

    def open(self, path):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.load("Page.navigate", url=Path(path).as_uri())

    def load(self, method, **params):
        """Call what loads a page, and wait until it has."""
        before = self._loads
        self.call(method, **params)
        while self._loads == before:
            self._read()

    def run(self, script):
        """Evaluate; promises are awaited. Then let pending frames be drawn."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def frame(self):
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frame()

    def mouse(self, kind, x, y, **params):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **params)
        self.frame()

    def size(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )


@contextmanager
def page(profile):
    """A page in a fresh browser whose profile lies in a folder of the test."""
    # the browser reads commands from its descriptor 3 and answers on 4
    commands, say = os.pipe()
    listen, answers = os.pipe()
    # keep the originals clear of 3 and 4, onto which the shell moves them
    safe = [os.dup(fd) for fd in (commands, answers)]
    script = f'exec 3<&{safe[0]} 4>&{safe[1]}; exec "$@"'
    browser = subprocess.Popen(
        ["/bin/bash", "-c", script, "browser", CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=safe,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for fd in (commands, answers, *safe):
        os.close(fd)
    watchdog = Timer(120, browser.kill)
    watchdog.start()
    with os.fdopen(listen, "rb") as reader, os.fdopen(say, "wb") as writer:
        driven = Page(reader, writer)
        try:
            yield driven
        finally:
            driven._session = None
            driven.call("Browser.close")
            browser.wait(20)
            watchdog.cancel()
