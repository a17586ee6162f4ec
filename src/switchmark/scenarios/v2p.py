"""Frames go from a function to a physical port."""

from __future__ import annotations

from switchmark.model.test import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import Scenario, copied, physical_sinks


class V2p(Scenario):
    """The topology has pairs of one source and one sink (or several, for copies), all through the
    same switch."""

    name = "v2p"
    summary = "from a function to a physical port"

    def draw(self, topology: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = topology.function(f"f{pair}")[0]
            copied(topology, test, source, physical_sinks(topology, test, pair))


SCENARIO = V2p()
