"""From one function to another."""

from __future__ import annotations

from switchmark.model.spec import Test
from switchmark.model.topology import Topology
from switchmark.scenarios.base import join


class V2v:
    """Pairs of one source and one sink, all through the same switch."""

    name = "v2v"
    summary = "from one function to another"

    def draw(self, t: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = t.function(f"f{2 * pair}")[0]
            sink = t.function(f"f{2 * pair + 1}")[0]
            join(t, test, source, sink)


SCENARIO = V2v()
