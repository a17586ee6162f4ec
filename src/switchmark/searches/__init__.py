"""The table of searches. To add a search, add its file and one line here."""

from __future__ import annotations

from switchmark.plugins import Table, load_plugins
from switchmark.searches import (
    back_to_back,
    fixed,
    frame_loss,
    latency_at_load,
    max,  # noqa: A004 (named as the command line names it)
    mlr,
    ndr,
    pdr,
    recovery,
)
from switchmark.searches.base import Search

TABLE: Table[Search] = load_plugins(
    "switchmark.searches",
    Search,  # type: ignore[type-abstract]
    (
        fixed.SEARCH,
        max.SEARCH,
        ndr.SEARCH,
        pdr.SEARCH,
        mlr.SEARCH,
        mlr.CSIT,
        latency_at_load.SEARCH,
        back_to_back.SEARCH,
        frame_loss.SEARCH,
        recovery.SEARCH,
    ),
)
