"""From a physical port to a function."""

from __future__ import annotations

from switchmark.model.spec import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import join, physical


class P2v:
    """Pairs of one source and one sink, all through the same switch."""

    name = "p2v"
    summary = "from a physical port to a function"

    def draw(self, t: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = physical(t, test, f"a{pair}")
            sink = t.function(f"f{pair}")[0]
            join(t, test, source, sink)


SCENARIO = P2v()
