"""A switch that misbehaves on request (traffic/tests/truth_switch.c), for tests that compare
switchmark's findings with the injected faults. `SWITCH.faults` are the program's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from switchmark.hosts.base import Host
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.plan import Check, Plan, Run, Spawn, Wait
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.base import NO_COUNTERS
from switchmark.switches.changes import Change
from switchmark.switches.eal_ports import SOCKET_KINDS, eal_endpoints, file_prefix, socket_path


class Truth(links.KernelSwitch):
    """Frames go from each flow's source to its sink, apart from the faults."""

    name = "truth"
    semantics = (Semantics.STATIC,)
    port_kinds: tuple[PortKind, ...] = (PortKind.VETH,)
    counters = links.COUNTERS
    program = "truth-switch"
    faults: tuple[str, ...] = ()
    expected: Mapping[str, object] = MappingProxyType({})
    """Other than that frames pass as they are: of `Addressing`."""

    def probe(self, host: Host) -> Version:
        return Version("1")

    def dedicated_core(self, mode: str | None) -> bool:
        return True

    def reconfigured(self, wiring: Wiring) -> Change:
        """Return an event without an effect: the gaps of the program are the outage."""
        return Change((Run("nothing changes", ("true",)),), ())

    def leftovers(self, wiring: Wiring) -> tuple[str, ...]:
        return (*super().leftovers(wiring), f"{wiring.run_dir}/truth")

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        as_sent = super().addressing(wiring)
        return {flow: replace(a, **self.expected) for flow, a in as_sent.items()}  # type: ignore[arg-type]

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in wiring.ports:
            steps += links.add_port(wiring, port)
        return (*steps, *self._started(wiring))

    def _port(self, wiring: Wiring, port: Port) -> str:
        """Return the program's name for a port."""
        return links.switch_ifname(wiring, port)

    def _started(self, wiring: Wiring, *first: str) -> Plan:
        ways: list[str] = []
        sinks = [flow.sink for flow in wiring.flows]
        for number, flow in enumerate(wiring.flows):
            wrong = sinks[(number + 1) % len(sinks)]
            ports = (flow.source, flow.sink, wrong)
            ways += [self._port(wiring, wiring.port(port)) for port in ports]
        pin = ("--cpu", str(wiring.cores[0])) if wiring.cores else ()
        ready = f"{wiring.run_dir}/truth"
        remove = ("rm", "-f", ready)
        return (
            Run("it has not forwarded yet", remove, undo=remove),
            Spawn(
                "the switch that tells the truth",
                "truth",
                (self.program, *first, *pin, *self.faults, "--ready", ready, *ways),
                at=wiring.node,
            ),
            Wait("it forwards", Check(("test", "-e", ready)), unless_dead="truth"),
        )


class TruthOfDpdk(Truth):
    """Frames go the same way between ports of DPDK. Such a switch counts nothing."""

    name = "truth-dpdk"
    port_kinds = SOCKET_KINDS
    counters = NO_COUNTERS
    resources = frozenset({"queues"})

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        macs = {port.id: mac_address(port.index) for port in wiring.ports}
        return eal_endpoints(wiring, macs)

    def settled(self, wiring: Wiring) -> Plan:
        return ()

    def start(self, wiring: Wiring) -> Plan:
        left = [socket_path(wiring, port) for port in wiring.ports]
        remove = ("rm", "-rf", *left, f"{wiring.run_dir}/dpdk/{file_prefix(wiring)}")
        eal = ("--eal", file_prefix(wiring), wiring.run_dir, str(wiring.queues))
        return (
            Run("no sockets of a switch before", remove, undo=remove),
            *self._started(wiring, *eal),
        )

    def _port(self, wiring: Wiring, port: Port) -> str:
        path = socket_path(wiring, port)
        if wiring.kind is PortKind.MEMIF:
            return f"net_memif{port.index},role=server,id=0,socket={path},socket-abstract=no"
        return f"net_vhost{port.index},iface={path},queues={wiring.queues}"


SWITCH = Truth()
DPDK = TruthOfDpdk()
