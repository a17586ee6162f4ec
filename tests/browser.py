"""Opens a page in headless Chromium, and returns what happened there."""

from __future__ import annotations

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
