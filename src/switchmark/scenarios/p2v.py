"""Frames go from a physical port to a function."""

from __future__ import annotations

from switchmark.model.spec import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import Scenario, copied, physical


class P2v(Scenario):
    """The topology has pairs of one source and one sink, or copies of it, all through the same
    switch."""

    name = "p2v"
    summary = "from a physical port to a function"

    def draw(self, topology: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = physical(topology, test, f"a{pair}")
            copied(topology, test, source, pair * test.copies)


SCENARIO = P2v()
