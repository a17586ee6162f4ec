"""An engine without I/O: it shows the cost of the program itself, and serves as the tutorial."""

from __future__ import annotations

from switchmark.engines.base import Engine
from switchmark.model.topology import PortKind

ENGINE = Engine(
    name="null",
    summary="no I/O: shows the cost of the program itself",
    port_kinds=frozenset({PortKind.NULL}),
    resources=frozenset({"function_cores"}),
)
