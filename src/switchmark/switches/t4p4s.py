"""T4P4S compiles P4 programs to DPDK; here the program must act as a wire between the ports 2i and
2i+1.

The compiler needs p4c and is the user's: SWITCHMARK_T4P4S names the compiled program, which must
forward frames unchanged between the two ports of a pair. The compiled-in parameters are those of
its authors' measurements, and no option changes them: bursts of 32 (MAX_PKT_BURST), rings of 128
and 512 (RTE_TEST_RX_DESC_DEFAULT and RTE_TEST_TX_DESC_DEFAULT), 8192 mbufs (NB_MBUF).
"""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.hosts.programs import how_to_name
from switchmark.model.plan import Plan
from switchmark.model.topology import PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.builds import Build
from switchmark.switches.eal import probe_program, start_program
from switchmark.switches.eal_ports import PORT_KINDS, SOCKET_KINDS, device_ids
from switchmark.switches.eal_telemetry import COUNTERS
from switchmark.switches.paired import PairedSwitch, are_neighbours

_HINT = f"compile a program (https://github.com/P4ELTE/t4p4s), then {how_to_name('t4p4s')}"
_MBUFS = 8192
_EXTRA_MB = 16  # per port and per core: 14 and 10 MB measured, with up to ten ports
_QUEUES_PER_CORE = 16  # MAX_RX_QUEUE_PER_LCORE in dpdk_lib_conf.h


class T4p4s(PairedSwitch):
    """On each core the compiled program polls its share of the ports' queues. A core transmits on
    the queue with its own number at every port, so a function's port needs as many queues as the
    switch has cores.

    The program has no version option and no counters: its DPDK library reports both.
    """

    name = "t4p4s"
    program = "t4p4s"
    build = Build(
        needs="a P4 program that is a wire between ports 2i and 2i+1, compiled with "
        "T4P4S_VETH_MODE and T4P4S_NO_CONTROL_PLANE",
        trees=("t4p4s", "t4p4s-*"),
        places=("build/*/build/*",),
    )
    semantics = (Semantics.PATCH,)
    port_kinds = PORT_KINDS
    function_kinds = frozenset(SOCKET_KINDS)  # host programs do not run in a VM
    counters = COUNTERS
    resources = frozenset({"listen", "switch_cores", "queues", "memory"})

    def probe(self, host: Host) -> Version:
        """Return the DPDK version of the program."""
        return probe_program(host, self.path, _HINT)

    def accepts(self, wiring: Wiring) -> str | None:
        if refusal := super().accepts(wiring):
            return refusal
        if not are_neighbours(wiring):
            return (
                "t4p4s pairs its NICs in the order of their PCI addresses, then its virtual "
                "ports: the two ports of a pair must be neighbours in that order"
            )
        cores, queues = max(1, len(wiring.cores)), wiring.queues
        if queues < cores and not all(port.nic for port in wiring.ports):
            return (
                f"t4p4s sends on one queue per core: {cores} cores need as many queues, and "
                f"the ports of functions have {queues}\n\nhint: --queues {cores}"
            )
        if wiring.kind is PortKind.MEMIF and queues > cores and wiring.cores:
            return (
                "t4p4s sends on one queue per core, and a memif port receives on as many: "
                f"{queues} queues do not work with {cores} cores\n\nhint: --queues {cores}"
            )
        if -(-len(wiring.ports) * queues // cores) > _QUEUES_PER_CORE:
            return (
                f"t4p4s polls at most {_QUEUES_PER_CORE} queues per core: {queues} at each of "
                f"{len(wiring.ports)} ports are too many for {cores}"
            )
        return None

    def start(self, wiring: Wiring) -> Plan:
        cores, ids = max(1, len(wiring.cores)), sorted(device_ids(wiring).values())
        polled = [
            (number, queue, (number + queue) % cores)
            for number in ids
            for queue in range(wiring.queues)
        ]
        lcores = ",".join(f"{i}@{cpu}" for i, cpu in enumerate(wiring.cores))
        return start_program(
            wiring,
            wiring.program,
            (
                *("-p", f"{(1 << len(ids)) - 1:#x}"),
                *("--config", ",".join(f"({port},{queue},{core})" for port, queue, core in polled)),
            ),
            lcores=("--lcores", lcores) if lcores else (),
            mbufs=_MBUFS,
            queues=wiring.queues,
            extra_mb=_EXTRA_MB * (len(ids) + cores),
        )


SWITCH = T4p4s()
