"""Frames go from one physical port to another."""

from __future__ import annotations

from switchmark.model.test import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import Scenario, copied, physical, physical_sinks


class P2p(Scenario):
    """The topology has pairs of one source and one sink (or several, for copies), all through the
    same switch."""

    name = "p2p"
    summary = "from one physical port to another"

    def draw(self, topology: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = physical(topology, test, f"a{pair}")
            copied(topology, test, source, physical_sinks(topology, test, pair))


SCENARIO = P2p()
