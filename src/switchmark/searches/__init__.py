"""The table of searches: to add one, add its file and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.plugins import load_plugins
from switchmark.searches import fixed, max  # noqa: A004 (named as the command line names it)
from switchmark.searches.base import Search

__all__ = ["TABLE"]

TABLE: Mapping[str, Search] = load_plugins(
    "switchmark.searches",
    Search,  # type: ignore[type-abstract]
    (fixed.SEARCH, max.SEARCH),
)
