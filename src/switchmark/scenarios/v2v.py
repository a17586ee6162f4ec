"""Frames go from one function to another."""

from __future__ import annotations

from switchmark.model.test import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import Scenario, copied, functions


class V2v(Scenario):
    """The topology has pairs of one source and one sink (or several, for copies), all through the
    same switch."""

    name = "v2v"
    summary = "from one function to another"

    def draw(self, topology: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            first = pair * (1 + test.copies)
            source = topology.function(f"f{first}")[0]
            copied(topology, test, source, functions(topology, test, first + 1))


SCENARIO = V2v()
