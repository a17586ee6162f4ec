"""DPDK's test program forwards like a wire (`io`), or like a wire that rewrites the MACs (`mac`).

It runs with testpmd's defaults: bursts of 32 and one core (`--burst`, `--nb-cores` in its user
guide, "Testpmd Command-line Options"), the queue lengths that NIC drivers prefer, and hugepages.
Only the pool has a computed size: all rings and caches can be full at once.
"""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Plan
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.eal import MBUF_BYTES, probe_program, start_program
from switchmark.switches.eal_ports import PORT_KINDS
from switchmark.switches.eal_telemetry import COUNTERS
from switchmark.switches.paired import PairedSwitch, are_neighbours, pairs

_HINT = "apt-get install dpdk-dev"
_MODES = {Semantics.PATCH: "io", Semantics.STATIC: "mac"}
_HEADROOM = 128
_LAYER_2 = 18 + 4  # Ethernet header and FCS, and a VLAN tag
_DESCRIPTORS = 1024
_RINGS = 128  # it prints 280 bytes per pair of queues to a pipe of 64 KiB that nobody reads
_CACHE = 512  # mbufs that a core may hold back: the pool allows twice the cache size


class Testpmd(PairedSwitch):
    """`dpdk-testpmd` forwards for its whole lifetime and reads no commands.

    The function sets the length of the rings of vhost-user and memif ports.
    """

    name = "testpmd"
    program = "dpdk-testpmd"
    semantics = (Semantics.PATCH, Semantics.STATIC)
    port_kinds = PORT_KINDS
    writes_next_macs = True
    counters = COUNTERS
    resources = frozenset(
        {"listen", "switch_cores", "queues", "descriptors", "memory", "switch_burst", "buffers"}
    )

    def probe(self, host: Host) -> Version:
        """Return the version of DPDK."""
        return probe_program(host, self.path, _HINT)

    def accepts(self, wiring: Wiring) -> str | None:
        if len(wiring.ports) * wiring.queues > _RINGS:
            return (
                f"testpmd has at most {_RINGS} queue pairs here: {wiring.queues} at each of "
                f"{len(wiring.ports)} ports are too many"
            )
        if wiring.tuning.buffers is not None and wiring.tuning.buffers < self._mbufs(wiring):
            return (
                f"testpmd can hold {self._mbufs(wiring)} frames in the rings and caches of these "
                f"ports: {wiring.tuning.buffers} buffers are too few"
                f"\n\nhint: --buffers {self._mbufs(wiring)}"
            )
        return super().accepts(wiring)

    def start(self, wiring: Wiring) -> Plan:
        # A frame of any size fits one mbuf.
        mbuf_bytes = max(MBUF_BYTES, -(-(wiring.mtu + _LAYER_2 + _HEADROOM) // 64) * 64)
        polling = max(1, len(wiring.cores))
        mbufs = wiring.tuning.buffers or self._mbufs(wiring)
        return start_program(
            wiring,
            wiring.program,
            (
                *(f"--forward-mode={_MODES[wiring.semantics]}", "--port-topology=paired"),
                # It forwards at once, independently of link states.
                *("--disable-link-check", "--no-lsc-interrupt"),
                *(f"--nb-cores={polling}", f"--rxq={wiring.queues}", f"--txq={wiring.queues}"),
                *(f"--total-num-mbufs={mbufs}", f"--mbuf-size={mbuf_bytes}"),
                *self._order(wiring),
                *self._descriptors(wiring),
                *((f"--burst={wiring.tuning.burst}",) if wiring.tuning.burst else ()),
                *self._peers(wiring),
            ),
            lcores=self._lcores(wiring),
            mbufs=mbufs,
            mbuf_bytes=mbuf_bytes,
            queues=wiring.queues,
        )

    def _mbufs(self, wiring: Wiring) -> int:
        """Return how many frames the rings and caches can hold."""
        rings = len(wiring.ports) * wiring.queues * 2 * (wiring.descriptors or _DESCRIPTORS)
        return rings + _CACHE * (max(1, len(wiring.cores)) + 1)

    def _lcores(self, wiring: Wiring) -> tuple[str, ...]:
        """Return the options for the cores. The main lcore sleeps while the others forward, so it
        shares the CPU of the first."""
        if not wiring.cores:
            return ()
        lcores = enumerate((wiring.cores[0], *wiring.cores))
        return ("--main-lcore", "0", "--lcores", ",".join(f"{i}@{cpu}" for i, cpu in lcores))

    def _order(self, wiring: Wiring) -> tuple[str, ...]:
        if are_neighbours(wiring):
            return ()
        return (f"--portlist={','.join(str(number) for pair in pairs(wiring) for number in pair)}",)

    def _descriptors(self, wiring: Wiring) -> tuple[str, ...]:
        if wiring.descriptors is None:
            return ()
        return (f"--rxd={wiring.descriptors}", f"--txd={wiring.descriptors}")

    def _peers(self, wiring: Wiring) -> tuple[str, ...]:
        """Return the options that set the destination MACs of frames by egress port."""
        if wiring.semantics is not Semantics.STATIC:
            return ()
        macs = {port: port.next_mac or mac_address(port.index) for port in wiring.ports}
        return tuple(f"--eth-peer={port.index},{mac}" for port, mac in macs.items())


SWITCH = Testpmd()
