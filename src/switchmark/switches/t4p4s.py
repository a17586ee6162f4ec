"""T4P4S turns a P4 program into one of DPDK, which is driven here as a wire between ports 2i, 2i+1.

The compiler needs p4c and is the user's: SWITCHMARK_T4P4S names the compiled program, which must
bring a frame from each port to the other of its pair as it came. What the compiler builds in is
what its authors measure with, and no option changes it: bursts of 32 (MAX_PKT_BURST), rings of 128
and 512 (RTE_TEST_RX_DESC_DEFAULT and its like), 8192 mbufs (NB_MBUF).
"""

from __future__ import annotations

from switchmark.machine.host import Host
from switchmark.model.plan import Plan
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.eal import probe_program, start_program
from switchmark.switches.eal_ports import PORT_KINDS, SOCKET_KINDS, device_ids
from switchmark.switches.eal_telemetry import COUNTERS
from switchmark.switches.paired import PairedSwitch, are_neighbours

_HINT = "compile a program (https://github.com/P4ELTE/t4p4s), then SWITCHMARK_T4P4S=/its/path"
_MBUFS = 8192
_PORTS_PER_CORE = 16  # MAX_RX_QUEUE_PER_LCORE in dpdk_lib_conf.h


class T4p4s(PairedSwitch):
    """The compiled program polls its share of the ports on each core, one queue a port.

    It has no option that tells its version and no counters of its own: DPDK in it tells both.
    """

    name = "t4p4s"
    program = "t4p4s"
    semantics = (Semantics.PATCH,)
    port_kinds = PORT_KINDS
    function_kinds = frozenset(SOCKET_KINDS)  # a program of the host's is not in a VM
    counters = COUNTERS
    resources = frozenset({"listen", "switch_cores", "memory"})

    def probe(self, host: Host) -> Version:
        """Return the version of DPDK that the program was built with."""
        return probe_program(host, self.path, _HINT)

    def accepts(self, wiring: Wiring) -> str | None:
        refusal = super().accepts(wiring)
        cores = max(1, len(wiring.cores))
        if refusal is None and not are_neighbours(wiring):
            return (
                "t4p4s joins its NICs in the order of their PCI addresses, and then its virtual "
                "ports: those of a pair must be next to each other"
            )
        if refusal is None and len(wiring.ports) > _PORTS_PER_CORE * cores:
            return (
                f"t4p4s serves at most {_PORTS_PER_CORE} ports a core, not {len(wiring.ports)} with"
                f" {cores}\n\nhint: --switch-cores {-(-len(wiring.ports) // _PORTS_PER_CORE)}"
            )
        return refusal

    def start(self, wiring: Wiring) -> Plan:
        cores, ids = max(1, len(wiring.cores)), sorted(device_ids(wiring).values())
        lcores = ",".join(f"{i}@{cpu}" for i, cpu in enumerate(wiring.cores))
        return start_program(
            wiring,
            wiring.program,
            (
                *("-p", f"{(1 << len(ids)) - 1:#x}"),
                *("--config", ",".join(f"({number},0,{number % cores})" for number in ids)),
            ),
            lcores=("--lcores", lcores) if lcores else (),
            mbufs=_MBUFS,
        )


SWITCH = T4p4s()
