"""No I/O: the floor of the program's own cost, and the tutorial."""

from __future__ import annotations

from switchmark.engines.base import Engine
from switchmark.model.topology import PortKind

ENGINE = Engine(
    name="null",
    summary="no I/O: the floor",
    port_kinds=frozenset({PortKind.NULL}),
)
