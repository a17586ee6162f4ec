"""A cable joins the two ends of each flow without a switch: the baseline for every figure."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.hosts.base import Host
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Endpoint, Flow, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import NO_COUNTERS, Switch
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.links import add_port, add_veth, interface_mac


class Direct(Switch):
    """A cable between the two ports of each flow: a veth pair in the kernel; in user space, one end
    listens (vhost or a memif server) and the other connects."""

    name = "direct"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.VETH, PortKind.VHOST_USER, PortKind.MEMIF)
    counters = NO_COUNTERS
    resources = frozenset({"queues"})

    def probe(self, host: Host) -> Version:
        return Version(probe_kernel(host, CABLE))

    def accepts(self, wiring: Wiring) -> str | None:
        for port in wiring.ports:
            peers = {
                flow.sink if flow.source == port.id else flow.source
                for flow in wiring.flows
                if port.id in (flow.source, flow.sink)
            }
            if len(peers) != 1:
                return f"direct is a cable: port {port.id} must have one peer, not {len(peers)}"
            if port.nic and not port.uplink:
                return "direct creates its own cables: it takes no NIC"
        return None

    def _cables(self, wiring: Wiring) -> list[tuple[Port, Port]]:
        pairs: dict[frozenset[str], Flow] = {}
        for flow in wiring.flows:
            pairs.setdefault(frozenset((flow.source, flow.sink)), flow)
        return [(wiring.port(flow.source), wiring.port(flow.sink)) for flow in pairs.values()]

    def _socket(self, wiring: Wiring, near: Port) -> str:
        return f"{wiring.ports_dir}/p{near.index}.sock"

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if wiring.kind is not PortKind.VETH:
            return {
                port.id: Endpoint(
                    kind=wiring.kind,
                    mac=mac_address(port.index),
                    path=self._socket(wiring, near),
                    server=port is near,
                    backend=port is near and wiring.kind is PortKind.VHOST_USER,
                    mtu=wiring.mtu,
                )
                for near, far in self._cables(wiring)
                for port in (near, far)
            }
        ends = {}
        for near, far in self._cables(wiring):
            for port, other in ((near, far), (far, near)):
                ifname = wiring.name(f"e{port.index}")
                # The cable to another host exists already.
                name = other.nic or ifname
                ends[port.id] = Endpoint(
                    kind=PortKind.VETH,
                    mac=mac_address(port.index),
                    ifname=name,
                    staged="" if other.uplink == "named" else name,
                    mtu=wiring.mtu,
                )
        return ends

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for a, b in self._cables(wiring):
            if wiring.kind is not PortKind.VETH:
                remove = ("rm", "-f", self._socket(wiring, a))
                steps += (Run("no socket of an earlier run is left", remove, undo=remove),)
                continue
            if a.uplink or b.uplink:
                port, uplink = (b, a) if a.uplink else (a, b)
                steps += self._end_of_cable(wiring, port, uplink)
                continue
            near, far = wiring.name(f"e{a.index}"), wiring.name(f"e{b.index}")
            macs = (interface_mac(wiring, a), interface_mac(wiring, b))
            steps += add_veth(wiring, near, far, *macs, far_gro=wiring.functions.napi)
        return steps

    def _end_of_cable(self, wiring: Wiring, port: Port, uplink: Port) -> Plan:
        """Return the steps that use this host's end of a cable to another host as a port."""
        steps: Plan = add_port(wiring, uplink) if uplink.uplink == "made" else ()
        mac = ("ip", "link", "set", uplink.nic or "", "address", interface_mac(wiring, port))
        step = Run(f"the MAC of port {port.id}", mac, at=wiring.node)
        return (*steps, step) if steps else ()

    @property
    def takes_uplink(self) -> bool:
        return True


SWITCH = Direct()
