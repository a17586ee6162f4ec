"""Makes the wiring for tests of a driver: pairs of functions on vhost-user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from switchmark.model.plan import HOST
from switchmark.model.topology import Endpoint, PortKind, Semantics, Topology, Wiring
from switchmark.model.version import Version


def wiring_of(
    ports: int = 2,
    *,
    both_ways: bool = False,
    program: str = "",
    mode: str | None = None,
    function_ends: Mapping[str, Endpoint] = MappingProxyType({}),
    **options: Any,
) -> Wiring:
    """Return a wiring of functions with a port each, and a flow from the first to the second of
    every pair, or in `both_ways`. A probe has found its `program` and `mode`. The wiring opens
    `function_ends` as a function, by port. `options` are members to replace."""
    topology = Topology()
    ends = [topology.function(f"f{i}")[0] for i in range(ports)]
    for source, sink in zip(ends[::2], ends[1::2], strict=False):
        topology.flow(source, sink)
        if both_ways:
            topology.flow(sink, source)
    usual = Wiring(
        prefix="sm0000",
        run_dir="/run/x",
        node=HOST,
        ports=tuple(replace(port, given=function_ends.get(port.id)) for port in topology.ports),
        flows=tuple(topology.flows),
        kind=PortKind.VHOST_USER,
        semantics=Semantics.PATCH,
        version=Version("", mode, program=program),
        cores=(3,),
    )
    return replace(usual, **options)
