"""This module makes the wiring that tests of a driver give it: pairs of functions on vhost-user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from switchmark.model.plan import HOST
from switchmark.model.topology import PortKind, Semantics, Topology, Wiring


def wiring_of(ports: int = 2, *, both_ways: bool = False, **more: Any) -> Wiring:
    """Return a wiring of so many functions with a port each, and a flow from the first to the
    second of each pair, or `both_ways`; `more` are members that it has instead."""
    topology = Topology()
    ends = [topology.function(f"f{i}")[0] for i in range(ports)]
    for source, sink in zip(ends[::2], ends[1::2], strict=False):
        topology.flow(source, sink)
        if both_ways:
            topology.flow(sink, source)
    usual = Wiring(
        prefix="sm0000",
        run_dir="/run/x",
        at=HOST,
        ports=topology.ports,
        flows=tuple(topology.flows),
        nodes={},
        kind=PortKind.VHOST_USER,
        semantics=Semantics.PATCH,
        cores=(3,),
    )
    return replace(usual, **more)
