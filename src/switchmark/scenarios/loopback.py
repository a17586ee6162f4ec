"""Frames go from physical ports through chains of functions to other physical ports."""

from __future__ import annotations

from switchmark.model.test import Test
from switchmark.model.topology import Port, Topology
from switchmark.scenarios.base import Scenario, forwarders, physical


class Loopback(Scenario):
    """The topology has `chains` chains of `chain` functions between `a0` and `b0`, which all chains
    share, and a chain between the ends of each further pair.

    A function has two ports; every hop from one function to the next passes the switch. Ports are
    drawn in the order of the frames' path, so ports 2i and 2i+1 are joined if a pair has one chain.
    The functions are `f1`, `f2`, ..., and with several chains `c1f1`, ....
    """

    name = "loopback"
    summary = "from a physical port through a chain of functions to another physical port"

    def draw(self, topology: Topology, test: Test) -> None:
        for pair in range(test.pairs):
            self._draw_pair(topology, test, pair)

    def _draw_pair(self, topology: Topology, test: Test, pair: int) -> None:
        several = test.chains > 1
        a = physical(topology, test, f"a{pair}")
        chains: list[tuple[Port, ...]] = []
        for c in range(test.chains):
            of_chain = f"c{pair * test.chains + c + 1}" if several or test.pairs > 1 else ""
            names = [f"{of_chain}f{i + 1}" for i in range(test.chain)]
            chains.append(forwarders(topology, test, names))
        b = physical(topology, test, f"b{pair}")
        # The flows of a sender have consecutive numbers.
        for c, ports in enumerate(chains):
            topology.flow(a, b, *ports, split=c if several else None)
        if test.direction == "bi":
            for c, ports in enumerate(chains):
                topology.flow(b, a, *reversed(ports), split=c if several else None)


SCENARIO = Loopback()
