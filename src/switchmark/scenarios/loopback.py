"""From a physical port through chains of functions to another physical port."""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.model.spec import Test
from switchmark.model.topology import Port, Topology
from switchmark.scenarios.base import physical

_USUAL = "forwarder"


class Loopback:
    """`chains` chains of `chain` functions between `a0` and `b0`, which all of them share.

    A function has two ports; each way from one function to the next leads through the switch.
    Ports are drawn in the order in which frames pass them, so that 2i and 2i+1 are joined where
    there is one chain. The functions are `f1`, `f2`, ..., those of several chains `c1f1`, ....
    """

    name = "loopback"
    summary = "from a physical port through a chain of functions to another physical port"

    def draw(self, t: Topology, test: Test) -> None:
        if test.pairs != 1:
            raise UsageError(
                f"scenario {self.name} has one source and one sink",
                hint=f"--chains {test.pairs} puts chains side by side",
            )
        function = (
            _USUAL if test.function == Test.model_fields["function"].default else (test.function)
        )
        several = test.chains > 1
        a = physical(t, test, "a0")
        chains: list[tuple[Port, ...]] = []
        for c in range(test.chains):
            names = [f"c{c + 1}f{i + 1}" if several else f"f{i + 1}" for i in range(test.chain)]
            chains.append(
                tuple(port for name in names for port in t.function(name, function, ports=2))
            )
        b = physical(t, test, "b0")
        # The flows of a sender are numbered in a row.
        for c, ports in enumerate(chains):
            t.flow(a, b, *ports, split=c if several else None)
        if test.direction == "bi":
            for c, ports in enumerate(chains):
                t.flow(b, a, *reversed(ports), split=c if several else None)


SCENARIO = Loopback()
