"""Frames go from one physical port to another."""

from __future__ import annotations

from switchmark.model.spec import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import Scenario, join, physical


class P2p(Scenario):
    """The topology has pairs of one source and one sink, all through the same switch."""

    name = "p2p"
    summary = "from one physical port to another"

    def draw(self, t: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = physical(t, test, f"a{pair}")
            sink = physical(t, test, f"b{pair}")
            join(t, test, source, sink)


SCENARIO = P2p()
