"""A cable joins the two ends of each flow without a switch: it is the baseline for every figure."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.machine.host import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import (
    Endpoint,
    Flow,
    Port,
    PortKind,
    Semantics,
    Wiring,
    mac_address,
)
from switchmark.model.version import Version
from switchmark.switches.base import NO_COUNTERS, Switch
from switchmark.switches.links import CABLE, add_veth, interface_mac, probe_kernel


class Direct(Switch):
    """A cable joins the two ports of each flow. It is a veth pair; or in user space one end that
    listens, vhost or a memif server, and one that connects."""

    name = "direct"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.VETH, PortKind.VHOST_USER, PortKind.MEMIF)
    counters = NO_COUNTERS
    resources = frozenset({"queues"})

    def probe(self, host: Host) -> Version:
        return Version(probe_kernel(host, CABLE), verified="verified")

    def accepts(self, w: Wiring) -> str | None:
        for port in w.ports:
            peers = {
                flow.sink if flow.source == port.id else flow.source
                for flow in w.flows
                if port.id in (flow.source, flow.sink)
            }
            if len(peers) != 1:
                return f"direct is a cable: port {port.id} must have one peer, not {len(peers)}"
            if port.nic:
                return "direct is a cable of switchmark's own: it takes no NIC"
        return None

    def _cables(self, w: Wiring) -> list[tuple[Port, Port]]:
        pairs: dict[frozenset[str], Flow] = {}
        for flow in w.flows:
            pairs.setdefault(frozenset((flow.source, flow.sink)), flow)
        return [(w.port(flow.source), w.port(flow.sink)) for flow in pairs.values()]

    def _socket(self, w: Wiring, near: Port) -> str:
        return f"{w.run_dir}/p{near.index}.sock"

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        if w.kind is not PortKind.VETH:
            return {
                port.id: Endpoint(
                    kind=w.kind,
                    mac=mac_address(port.index),
                    path=self._socket(w, near),
                    server=port is near,
                    backend=port is near and w.kind is PortKind.VHOST_USER,
                    mtu=w.mtu,
                )
                for near, far in self._cables(w)
                for port in (near, far)
            }
        return {
            port.id: Endpoint(
                kind=PortKind.VETH,
                mac=mac_address(port.index),
                ifname=w.name(f"e{port.index}"),
                staged=w.name(f"e{port.index}"),
                mtu=w.mtu,
            )
            for port in w.ports
        }

    def start(self, w: Wiring) -> Plan:
        steps: Plan = ()
        for a, b in self._cables(w):
            if w.kind is not PortKind.VETH:
                remove = ("rm", "-f", self._socket(w, a))
                steps += (Run("no socket is left of an earlier run", remove, undo=remove),)
                continue
            near, far = w.name(f"e{a.index}"), w.name(f"e{b.index}")
            macs = (interface_mac(w, a), interface_mac(w, b))
            steps += add_veth(w, near, far, *macs, far_gro=w.napi)
        return steps


SWITCH = Direct()
