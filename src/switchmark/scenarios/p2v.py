"""Frames go from a physical port to a function, optionally through other functions."""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.model.test import Test
from switchmark.model.topology import Port, Topology
from switchmark.scenarios.base import Scenario, copied, forwarders, functions, physical


class P2v(Scenario):
    """The topology has pairs of one source and one sink (or several, for copies), all through the
    same switch.

    In a chain of functions the last receives, and the others forward. They are `f1`, `f2`, ..., and
    with several pairs `c1f1`, ..., as in loopback.
    """

    name = "p2v"
    summary = "from a physical port to a function"

    def draw(self, topology: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            source = physical(topology, test, f"a{pair}")
            if test.chain > 1:
                self._draw_chain(topology, test, source, pair)
            else:
                copied(topology, test, source, functions(topology, test, pair * test.copies))

    def _draw_chain(self, topology: Topology, test: Test, source: Port, pair: int) -> None:
        if test.chains > 1:
            raise UsageError(
                "parallel chains share their ends, and in scenario p2v every chain ends in a "
                "separate function",
                hint=f"--pairs {test.chains}, or --scenario loopback",
                axes=("chains", "scenario"),
            )
        if test.copies > 1:
            raise UsageError(
                "copies reach receivers, not chains: use --chain 1",
                axes=("copies", "chain"),
            )
        of_chain = f"c{pair + 1}" if test.pairs > 1 else ""
        *between, last = (f"{of_chain}f{i + 1}" for i in range(test.chain))
        hops = forwarders(topology, test, between)
        sink = topology.function(last)[0]
        topology.flow(source, sink, *hops)
        if test.direction == "bi":
            topology.flow(sink, source, *reversed(hops))


SCENARIO = P2v()
