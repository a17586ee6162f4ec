"""The kernel's IPv4 router, shared by the switches that build on it.

The module is independent of any single switch: drivers add their parts to the router.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from switchmark.model.addresses import Addressing, ip_address, mac_address
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import Port, Semantics, Wiring
from switchmark.switches.base import routed_addressing
from switchmark.switches.changes import Change
from switchmark.switches.links import (
    COUNTERS,
    PORT_KINDS,
    KernelSwitch,
    add_port,
    set_sysctls,
    switch_ifname,
)

_NETWORKS = 255
_FIRST_TABLE = 1000  # the kernel's own are below 256
_SPARE = "203.0.113.0/24"  # TEST-NET-3, which no flow uses


FORWARDING = ("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
"""The probe command of switches that route."""


class KernelRouter(KernelSwitch):
    """The kernel routes between the ports, in the sender's context. Each port has a /24 of
    198.18.0.0/16, and all neighbours are known in advance.

    If functions forward, a frame keeps its destination address on the whole path: a policy routing
    rule per port then selects the next neighbour, and the TTL falls by one at each pass.
    """

    semantics = (Semantics.ROUTED,)
    port_kinds = PORT_KINDS
    resources = frozenset({"switch_cores"})
    counters = COUNTERS
    private_stack = True
    routes_by_port = True

    def accepts(self, wiring: Wiring) -> str | None:
        if len(wiring.ports) > _NETWORKS:
            return f"{self.name} gives each port a /24 of 198.18.0.0/16: at most {_NETWORKS} ports"
        if through_functions(wiring):
            for port_id, sinks in wiring.ways.items():
                if len(sinks) > 1:
                    return (
                        f"{self.name} has one rule per port: frames received at port "
                        f"{port_id} cannot go to {len(sinks)} ports\n\nhint: --chains 1"
                    )
        return None

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        return routed_addressing(wiring)

    def start(self, wiring: Wiring) -> Plan:
        ports: Plan = ()
        for port in wiring.ports:
            near = switch_ifname(wiring, port)
            ports += (
                *add_port(wiring, port),
                Run(
                    f"the router's address on {near}",
                    ("ip", "address", "add", f"{ip_address(1, net=port.index)}/24", "dev", near),
                    at=wiring.node,
                ),
                _neighbour(wiring, port),
            )
        return _forwarding(wiring) + ports + (_rules(wiring) if through_functions(wiring) else ())

    def remade(self, wiring: Wiring) -> Change | None:
        off = ("sysctl", "-q", "-w", "net.ipv4.ip_forward=0")
        is_off = Check(("sysctl", "net.ipv4.ip_forward"), wiring.node, "= 0$")
        return Change(
            (
                Run("the router forwards nothing", off, at=wiring.node),
                Wait("forwarding is seen off", is_off),
            ),
            _forwarding(wiring),
        )

    def relinked(self, wiring: Wiring, port: Port) -> Plan:
        routes = _rules(wiring, routes_to=port) if through_functions(wiring) else ()
        return (_neighbour(wiring, port), *routes)

    def reconfigured(self, wiring: Wiring) -> Change:
        route = (_SPARE, "dev", switch_ifname(wiring, wiring.ports[0]))
        add, remove = (("ip", "route", verb, *route) for verb in ("add", "del"))
        seen = Check(("ip", "route", "show", _SPARE), wiring.node, re.escape(_SPARE))
        return Change(
            (
                Run("a spare route", add, at=wiring.node, undo=remove),
                Wait("the route is seen", seen),
            ),
            (Run("the spare route is removed", remove, at=wiring.node),),
        )


def _forwarding(wiring: Wiring) -> Plan:
    return set_sysctls(
        wiring,
        "forward IPv4 from any source network",
        {
            "net.ipv4.ip_forward": "1",
            "net.ipv4.conf.all.rp_filter": "0",
            "net.ipv4.conf.default.rp_filter": "0",
            "net.ipv4.conf.all.send_redirects": "0",
        },
    )


def _neighbour(wiring: Wiring, port: Port) -> Run:
    near = switch_ifname(wiring, port)
    return Run(
        f"the neighbour behind {near}: no ARP during a trial",
        (
            *("ip", "neighbour", "replace", ip_address(2, net=port.index)),
            *("lladdr", mac_address(port.index), "dev", near, "nud", "permanent"),
        ),
        at=wiring.node,
    )


def through_functions(wiring: Wiring) -> bool:
    """Return whether frames return to the router, because a function has several ports."""
    return len({port.part for port in wiring.ports}) < len(wiring.ports)


def table_of(port: Port) -> int:
    """Return the routing table for frames that arrive at a port."""
    return _FIRST_TABLE + port.index


def _rules(wiring: Wiring, routes_to: Port | None = None) -> Plan:
    """Return the steps that send the frames of each ingress port to the next neighbour; with
    `routes_to`, only the routes to this port."""
    steps: Plan = ()
    for port_id, sinks in wiring.ways.items():
        port = wiring.port(port_id)
        near, table = switch_ifname(wiring, port), table_of(port)
        for sink in map(wiring.port, sinks):
            far, neighbour = switch_ifname(wiring, sink), ip_address(2, net=sink.index)
            route = ("default", "via", neighbour, "dev", far, "table", str(table))
            rule = ("iif", near, "lookup", str(table), "priority", str(table))
            to_neighbour = Run(
                f"the next hop after {near} is the neighbour behind {far}",
                ("ip", "route", "add", *route),
                at=wiring.node,
            )
            if routes_to is not None:
                steps += (to_neighbour,) if sink == routes_to else ()
                continue
            steps += (
                to_neighbour,
                Run(
                    f"frames received at {near} go there, whatever their destination",
                    ("ip", "rule", "add", *rule),
                    at=wiring.node,
                ),
            )
    return steps
