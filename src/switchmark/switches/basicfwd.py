"""DPDK's smallest sample (`examples/skeleton`): a wire, one core, one queue, fixed rings."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.machine.host import Host
from switchmark.model.plan import Plan
from switchmark.model.topology import Addressing, Endpoint, Semantics, Wiring, mac_address
from switchmark.model.version import Version
from switchmark.switches.eal import (
    PORT_KINDS,
    PairedSwitch,
    are_neighbours,
    eal_endpoints,
    paired_addressing,
    probe_program,
    program,
    refusal,
    start_program,
)

_PROGRAM = "dpdk-skeleton"
_HINT = "make setup"
_MBUFS_PER_PORT = 8191  # NUM_MBUFS in basicfwd.c


class Basicfwd(PairedSwitch):
    """It forwards on its main lcore, from the moment its ports are up."""

    name = "basicfwd"
    semantics = (Semantics.PATCH,)
    port_kinds = PORT_KINDS
    function_kinds = frozenset(PORT_KINDS)
    environments = frozenset({"netns", "host", "lxc", "docker", "podman"})
    resources: frozenset[str] = frozenset()

    def probe(self, host: Host) -> Version:
        """The version of DPDK that it was built with."""
        return probe_program(host, program(_PROGRAM), _HINT)

    def accepts(self, w: Wiring) -> str | None:
        found = refusal(w, self.name)
        if found is None and not are_neighbours(w):
            return (
                "basicfwd joins its NICs in the order of their PCI addresses, and then its virtual "
                "ports: those of a pair must be next to each other"
            )
        return found

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        return eal_endpoints(w)

    def addressing(self, w: Wiring) -> Mapping[str, Addressing]:
        macs = {port.id: mac_address(port.index) for port in w.ports}
        return paired_addressing(w, macs, rewritten=False)

    def start(self, w: Wiring) -> Plan:
        return start_program(
            w,
            program(_PROGRAM),
            (),
            lcores=("--lcores", f"0@{w.cores[0]}") if w.cores else (),
            mbufs=_MBUFS_PER_PORT * len(w.ports),
        )


SWITCH = Basicfwd()
