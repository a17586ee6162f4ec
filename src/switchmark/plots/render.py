"""This module makes pictures of charts: SVG, PDF and PNG without a browser, and the script that
draws them in one.

The library that does it is heavy, and loads when it is used.
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

from switchmark.errors import SetupFailed, Unavailable
from switchmark.model.printable import printable

_VERSION = "6.4"
"""The version of Vega-Lite that specifications are written for."""

_GLOBAL = "window.switchmarkEmbed = vegaEmbed;\n"
_PNG_SCALE = 2


def svg(specification: dict[str, Any]) -> str:
    """Return a chart as an SVG document."""
    return str(_drawn("vegalite_to_svg", specification))


def pdf(specification: dict[str, Any]) -> bytes:
    """Return a chart as a PDF document of one page."""
    return bytes(_drawn("vegalite_to_pdf", specification))


def png(specification: dict[str, Any]) -> bytes:
    """Return a chart as a PNG picture, twice as large as its points."""
    return bytes(_drawn("vegalite_to_png", specification, scale=_PNG_SCALE))


def _drawn(name: str, specification: dict[str, Any], **options: Any) -> Any:
    """Return what the library makes of a chart; SetupFailed where it cannot, for instance for want
    of threads, files or memory."""
    convert = _convert(name)
    try:
        return convert(_text(specification), vl_version=_VERSION, **options)
    except BaseException as error:
        # What panics in Rust is no Exception, and has no class that could be imported.
        if not isinstance(error, ValueError) and type(error).__module__ != "pyo3_runtime":
            raise
        raise SetupFailed(f"the picture cannot be drawn: {error}", hint="ulimit -a") from error


def _text(specification: dict[str, Any]) -> str:
    """Return a specification as JSON. A control character in one of its texts would abort this
    whole process: the library makes XML of them."""
    return json.dumps(_shown(specification))


def _shown(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _shown(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_shown(value) for value in content]
    return printable(content) if isinstance(content, str) else content


def script() -> str:
    """Return the script by which a browser draws charts: `switchmarkEmbed(element, specification)`.

    It takes seconds to be put together out of the installed library, and is kept in the user's
    cache.
    """
    bundle = _convert("javascript_bundle")
    version = f"{metadata.version('vl-convert-python')} {_VERSION} {_GLOBAL}"
    digest = hashlib.sha256(version.encode()).hexdigest()[:16]
    kept = _cache() / f"vega-{digest}.js"
    if kept.is_file():
        return kept.read_text()
    content = str(bundle(_GLOBAL, vl_version=_VERSION))
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(kept)
    except OSError:
        pass  # it is made again the next time
    return content


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "switchmark"


def _convert(name: str) -> Callable[..., Any]:
    try:
        import vl_convert
    except ImportError as error:
        raise Unavailable(
            "pictures take the Python package vl-convert-python, which is not installed",
            hint="pip install vl-convert-python, or -o FILE.csv",
        ) from error
    convert: Callable[..., Any] = getattr(vl_convert, name)
    return convert
