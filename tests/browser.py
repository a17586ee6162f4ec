"""Opens a page in headless Chromium, and returns what happened there."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=20000"),
)
_DARK = "--blink-settings=preferredColorScheme=0"

_PROBE = """
<script>
addEventListener("load", async () => {
  const told = { errors: [] };
  addEventListener("error", (event) => told.errors.push(event.message));
  const count = (name) => document.querySelectorAll(name).length;
  const left = () => count("figure[data-chart]") - count(".chart.vega-embed");
  for (let tries = 0; tries < 150 && left() > 0; tries++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  try { %s } catch (error) { told.errors.push(String(error)); }
  told.requests = performance.getEntriesByType("resource").map((each) => each.name)
    .filter((name) => !/^(data|blob):/.test(name));
  const place = document.createElement("pre");
  place.id = "told"; place.textContent = JSON.stringify(told);
  document.body.append(place);
});
</script>
"""

_PAINT = """
<script>
new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName("first-contentful-paint"))
    console.log(`painted ${entry.startTime}`);
}).observe({ type: "paint", buffered: true });
</script>
"""


def chromium() -> str:
    """Return the path of the browser. Skip the test if it is not installed."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    return path


def run_in_page(
    page: str,
    folder: Path,
    question: str = "",
    width: int = 1200,
    *,
    height: int = 4000,
    dark: bool = False,
) -> dict[str, Any]:
    """Open a page and run a script in it that writes into `told`. Return that, with the messages of
    its console and the addresses that it requested."""
    path = folder / "asked.html"
    # A page lets no script run but its own: this one stands before the page says so.
    policy = "<meta http-equiv="
    assert policy in page
    path.write_text(page.replace(policy, (_PROBE % question) + policy, 1))
    flags: tuple[str, ...] = (
        f"--window-size={width},{height}",
        "--enable-logging=stderr",
        "--dump-dom",
    )
    flags += (_DARK,) if dark else ()
    ended = _run(path, folder, *flags)
    found = re.search(r'<pre id="told">(.*?)</pre>', ended.stdout, re.DOTALL)
    assert found is not None, ended.stderr[-2000:]
    content: dict[str, Any] = json.loads(html.unescape(found[1]))
    content["console"] = [line for line in ended.stderr.splitlines() if ":CONSOLE" in line]
    return content


def painted_ms(page: str, folder: Path) -> float:
    """Open a page in real time, and return the time until its first content was painted, as
    reported by the browser."""
    path = folder / "painted.html"
    path.write_text(page.replace("<head>", f"<head>{_PAINT}", 1))
    flags = [flag for flag in _FLAGS if "virtual-time" not in flag]
    argv = (*_started(folder), *flags, "--window-size=1200,900", "--enable-logging=stderr")
    argv += (f"file://{path}",)
    with (
        _scratch() as env,
        subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=env) as process,
    ):
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"painted ([0-9.]+)", line):
                    return float(found[1])
        finally:
            process.terminate()
    pytest.fail("nothing was painted")


def picture(page: str, folder: Path, width: int, *, dark: bool) -> bytes:
    """Return a page of this width as a PNG."""
    path, output = folder / "page.html", folder / f"{width}-{dark}.png"
    path.write_text(page)
    flags = (f"--window-size={width},3000", f"--screenshot={output}", *([_DARK] if dark else []))
    _run(path, folder, *flags)
    return output.read_bytes()


def _run(path: Path, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = (*_started(folder), *_FLAGS, *flags, f"file://{path}")
    with _scratch() as env:
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=120, check=True, env=env
        )


@contextmanager
def _scratch() -> Iterator[dict[str, str]]:
    """Return the environment of a browser whose temporary files are removed at the end: a
    terminated browser leaves them."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield {**os.environ, "TMPDIR": folder}


def _started(folder: Path) -> tuple[str, ...]:
    return (chromium(), f"--user-data-dir={folder / 'chromium'}")


class Window:
    """A window of a running browser, which speaks Chrome's DevTools protocol over two pipes. Unlike
    the windows of `run_in_page`, it can be narrower than 500 pixels."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers, self._last, self._session = orders, answers, 0, ""
        self._unread = b""
        self.requests: list[str] = []
        self.console: list[str] = []
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        attached = self.order("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.order(f"{domain}.enable")

    def order(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Carry out a command of the protocol and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._last:
            self._note(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def show(self, path: Path, width: int, height: int, *, dark: bool = False) -> None:
        """Open a file in a window of this size, and wait until it is loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.order("Emulation.setDeviceMetricsOverride", **size)
        self.order("Emulation.setEmulatedMedia", features=[scheme])
        self.order("Page.navigate", url=f"file://{path}")
        while (event := self._read()).get("method") != "Page.loadEventFired":
            self._note(event)

    def ask(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        asked = self.order(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in asked, asked["exceptionDetails"]
        return asked["result"].get("value")

    def picture(self) -> bytes:
        """Return what the window shows, as a PNG."""
        return base64.b64decode(self.order("Page.captureScreenshot")["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser ended"
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.console.append(json.dumps(told))


@contextmanager
def window(folder: Path) -> Iterator[Window]:
    """Start a browser whose profile is in `folder`, and return a window of it."""
    orders_out, orders = os.pipe()
    answers, answers_in = os.pipe()
    # The browser reads orders from descriptor 3 and writes answers to descriptor 4.
    argv = ("bash", "-c", f'exec "$@" 3<&{orders_out} 4>&{answers_in}', "bash", *_started(folder))
    flags = [flag for flag in _FLAGS if "virtual-time" not in flag]
    with (
        _scratch() as env,
        subprocess.Popen(
            (*argv, *flags, "--remote-debugging-pipe"),
            stderr=subprocess.DEVNULL,
            pass_fds=(orders_out, answers_in),
            env=env,
        ) as process,
    ):
        os.close(orders_out)
        os.close(answers_in)
        try:
            yield Window(orders, answers)
        finally:
            os.close(orders)
            os.close(answers)
            process.terminate()
