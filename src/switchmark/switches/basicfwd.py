"""DPDK's smallest sample (`examples/skeleton`) forwards like a wire, on one core with one queue and
fixed rings.

Its forwarding parameters are compiled in (`basicfwd.c`): bursts of 32 (BURST_SIZE), rings of 1024
(RX_RING_SIZE, TX_RING_SIZE), 8191 mbufs per port (NUM_MBUFS) with caches of 250. It uses hugepages,
as DPDK's guides recommend.
"""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.plan import Plan
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.eal import probe_program, start_program
from switchmark.switches.eal_ports import PORT_KINDS
from switchmark.switches.eal_telemetry import COUNTERS
from switchmark.switches.paired import PairedSwitch, are_neighbours

_HINT = "make setup"
_MBUFS_PER_PORT = 8191  # NUM_MBUFS in basicfwd.c


class Basicfwd(PairedSwitch):
    """The skeleton sample: it forwards on its main lcore as soon as its ports are up."""

    name = "basicfwd"
    program = "dpdk-skeleton"
    semantics = (Semantics.PATCH,)
    port_kinds = PORT_KINDS
    counters = COUNTERS
    resources = frozenset({"listen", "memory"})

    def probe(self, host: Host) -> Version:
        """Return the DPDK version of the sample."""
        return probe_program(host, self.path, _HINT)

    def accepts(self, wiring: Wiring) -> str | None:
        refusal = super().accepts(wiring)
        if refusal is None and not are_neighbours(wiring):
            return (
                "basicfwd pairs its NICs in the order of their PCI addresses, then its "
                "virtual ports: the two ports of a pair must be neighbours in that order"
            )
        return refusal

    def start(self, wiring: Wiring) -> Plan:
        return start_program(
            wiring,
            wiring.program,
            (),
            lcores=("--lcores", f"0@{wiring.cores[0]}") if wiring.cores else (),
            mbufs=_MBUFS_PER_PORT * len(wiring.ports),
        )


SWITCH = Basicfwd()
