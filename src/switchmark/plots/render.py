"""Rendering of charts: SVG, PDF and PNG without a browser, and the script that draws them in a
browser.

The library is large, so it is imported on first use.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from switchmark.errors import SetupFailed
from switchmark.extras import PLOTS
from switchmark.model.printable import printable

_VERSION = "6.4"
"""The Vega-Lite version of the specifications."""

_GLOBAL = "window.switchmarkEmbed = vegaEmbed;\n"
_PNG_SCALE = 2


def svg(specification: dict[str, Any]) -> str:
    """Return a chart as an SVG document."""
    return str(_drawn("vegalite_to_svg", specification))


def pdf(specification: dict[str, Any]) -> bytes:
    """Return a chart as a PDF document of one page."""
    return bytes(_drawn("vegalite_to_pdf", specification))


def png(specification: dict[str, Any]) -> bytes:
    """Return a chart as a PNG image, with two pixels per point."""
    return bytes(_drawn("vegalite_to_png", specification, scale=_PNG_SCALE))


def _drawn(name: str, specification: dict[str, Any], **options: Any) -> Any:
    """Return the rendered chart. Raise SetupFailed if rendering fails, for example because of too
    few threads, files or memory."""
    convert = _convert(name)
    try:
        return convert(_text(specification), vl_version=_VERSION, **options)
    except BaseException as error:
        # A panic in Rust is not an Exception, and its class cannot be imported.
        if not isinstance(error, ValueError) and type(error).__module__ != "pyo3_runtime":
            raise
        raise SetupFailed(f"the picture cannot be drawn: {error}", hint="ulimit -a") from error


def _text(specification: dict[str, Any]) -> str:
    """Return a specification as JSON without control characters. The library writes its texts as
    XML, and a control character would abort the whole process."""
    return json.dumps(_shown(specification))


def _shown(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _shown(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_shown(value) for value in content]
    return printable(content) if isinstance(content, str) else content


def script() -> str:
    """Return the script that draws charts in a browser: `switchmarkEmbed(element, specification)`.

    Building it from the installed library takes seconds, so it is cached in the user's cache
    directory.
    """
    bundle = _convert("javascript_bundle")
    version = f"{metadata.version('vl-convert-python')} {_VERSION} {_GLOBAL}"
    digest = hashlib.sha256(version.encode()).hexdigest()[:16]
    cached = _cache() / f"vega-{digest}.js"
    if cached.is_file():
        return cached.read_text(encoding="utf-8")
    content = str(bundle(_GLOBAL, vl_version=_VERSION))
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=cached.parent, delete=False, encoding="utf-8") as file:
            file.write(content)
        Path(file.name).replace(cached)
    except OSError:
        pass  # it is built again next time
    return content


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "switchmark"


def _convert(name: str) -> Callable[..., Any]:
    try:
        import vl_convert
    except ImportError as error:
        raise PLOTS.missing("charts and pages need Vega", "-o FILE.md or FILE.csv") from error
    convert: Callable[..., Any] = getattr(vl_convert, name)
    return convert
