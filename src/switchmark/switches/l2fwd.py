"""DPDK's layer-2 sample (`examples/l2fwd`) forwards like a wire, with or without rewriting both
MACs.

Its forwarding parameters are compiled in (`main.c`): bursts of 32 (MAX_PKT_BURST), rings of 1024
(RX_DESC_DEFAULT, TX_DESC_DEFAULT), caches of 256, and 8192 mbufs, or more if its ports and cores
need more. It uses hugepages, as DPDK's guides recommend.
"""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.hosts.base import Host
from switchmark.model.plan import Plan
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.eal import probe_program, start_program
from switchmark.switches.eal_ports import PORT_KINDS
from switchmark.switches.eal_telemetry import COUNTERS
from switchmark.switches.paired import PairedSwitch, pairs

_HINT = "make setup"
_PORTS = 30  # it shifts 1 by the port number in 32 bits to check its port mask
_PORTS_PER_CORE = 15  # less than MAX_RX_QUEUE_PER_LCORE in main.c
_MBUFS_MIN = 8192
_MBUFS_PER_PORT = 1024 + 1024 + 32  # both rings and a burst
_MBUFS_PER_PORT_AND_CORE = 256  # MEMPOOL_CACHE_SIZE


class L2fwd(PairedSwitch):
    """Each core serves its share of the ports, with one queue per port.

    l2fwd buffers frames until it has 32, or for 100 us. Before it forwards, it checks the links
    every 100 ms for at most 9 s. Once all links are up, it forwards within 100 ms, which is shorter
    than the warm-up of a trial.
    """

    name = "l2fwd"
    program = "dpdk-l2fwd"
    semantics = (Semantics.PATCH, Semantics.STATIC)
    port_kinds = PORT_KINDS
    counters = COUNTERS
    resources = frozenset({"listen", "switch_cores", "memory"})

    def probe(self, host: Host) -> Version:
        """Return the DPDK version of the sample."""
        return probe_program(host, self.path, _HINT)

    def accepts(self, wiring: Wiring) -> str | None:
        if len(wiring.ports) > _PORTS:
            return f"l2fwd has at most {_PORTS} ports, not {len(wiring.ports)}"
        ports, cores = len(wiring.ports), len(wiring.cores)
        if cores and ports > _PORTS_PER_CORE * cores:
            return (
                f"l2fwd serves at most {_PORTS_PER_CORE} ports per core: {ports} ports are "
                f"too many for {cores}\n\nhint: --switch-cores {-(-ports // _PORTS_PER_CORE)}"
            )
        return super().accepts(wiring)

    def macs(self, wiring: Wiring) -> Mapping[str, str]:
        """Return the MACs of the functions' ends. If l2fwd writes MACs, frames that leave port N
        have the destination 02:00:00:00:00:N."""
        if wiring.semantics is Semantics.STATIC:
            return {port.id: f"02:00:00:00:00:{port.index:02x}" for port in wiring.ports}
        return super().macs(wiring)

    def start(self, wiring: Wiring) -> Plan:
        count, cores = len(wiring.ports), max(1, len(wiring.cores))
        portmap = ",".join(f"({a},{b})" for a, b in pairs(wiring))
        return start_program(
            wiring,
            wiring.program,
            (
                *("-p", f"{(1 << count) - 1:x}", "-P", "-q", str(-(-count // cores))),
                *("-T", "0", "--portmap", portmap),
                *(() if wiring.semantics is Semantics.STATIC else ("--no-mac-updating",)),
            ),
            lcores=self._lcores(wiring),
            mbufs=max(_MBUFS_MIN, count * (_MBUFS_PER_PORT + cores * _MBUFS_PER_PORT_AND_CORE)),
        )

    def _lcores(self, wiring: Wiring) -> tuple[str, ...]:
        if not wiring.cores:
            return ()
        return ("--lcores", ",".join(f"{i}@{cpu}" for i, cpu in enumerate(wiring.cores)))


SWITCH = L2fwd()
