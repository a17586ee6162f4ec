"""The addresses of pods, as the network that connects them has chosen them.

The kernel is the witness: the output of `ip` in each pod, and in the node that the network is made
in. This module is pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

ADDRESSES = ("ip", "-j", "address", "show")
"""The command that prints the interfaces of a node with their addresses."""
ROUTES = ("ip", "-j", "-4", "route", "show")
"""The command that prints the routes of a node."""


@dataclass(frozen=True, slots=True)
class Link:
    """An interface."""

    index: int
    """Its number in its network namespace."""
    name: str
    mac: str
    below: int | None
    """The number of the interface at its other end, or below it; None if there is none."""
    master: str
    """The bridge that it is a port of; empty if there is none."""
    addresses: tuple[IPv4Interface, ...]

    @property
    def ips(self) -> tuple[IPv4Address, ...]:
        """Return the addresses without their networks."""
        return tuple(address.ip for address in self.addresses)


@dataclass(frozen=True, slots=True)
class Route:
    """A route of a pod."""

    to: IPv4Network
    gateway: str
    """The address of the router; empty if the destinations are on the link."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: its interface and its routes."""

    link: Link
    routes: tuple[Route, ...]

    @property
    def address(self) -> IPv4Interface:
        return self.link.addresses[0]

    @property
    def ip(self) -> str:
        return str(self.address.ip)

    def gateway_to(self, ip: str) -> str:
        """Return the router to an address; empty if the address is on the link. Raise ValueError
        without a route."""
        there = IPv4Address(ip)
        fitting = [route for route in self.routes if there in route.to]
        if not fitting:
            raise ValueError(f"the pod with {self.address} has no route to {ip}")
        return max(fitting, key=lambda route: route.to.prefixlen).gateway


@dataclass(frozen=True, slots=True)
class Hop:
    """The first neighbour on the way from a pod to another."""

    ip: str
    mac: str
    routed: bool
    """Whether it is a router. Otherwise it is the other pod."""


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The pods by port id, and the interfaces of the node that connects them."""

    pods: Mapping[str, Pod]
    links: Sequence[Link]

    def hop(self, source: str, sink: str) -> Hop:
        """Return the first neighbour on the way from a port to another. Raise ValueError if no
        interface of the node can be that neighbour."""
        pod, other = self.pods[source], self.pods[sink]
        gateway = pod.gateway_to(other.ip)
        if not gateway:
            return Hop(other.ip, other.link.mac, routed=False)
        return Hop(gateway, self._router(source, gateway).mac, routed=True)

    def near(self, port: str) -> Link | None:
        """Return the interface of the node at the other end of a pod's interface, or below it; None
        if the node has none."""
        index = self.pods[port].link.below
        return next((link for link in self.links if link.index == index), None)

    @property
    def cables(self) -> Mapping[str, Link]:
        """Return the near ends of the pods' cables, by port; empty if pods have none, because they
        share an interface below theirs."""
        near = {port: link for port in self.pods if (link := self.near(port))}
        apart = len({link.index for link in near.values()}) == len(self.pods)
        return near if apart else {}

    def towards(self, port: str) -> Link | None:
        """Return the interface by which the node reaches a pod: the near one, or the bridge that
        this is a port of; None if the node has none."""
        near = self.near(port)
        if near is None or not near.master:
            return near
        return next((link for link in self.links if link.name == near.master), None)

    def _router(self, port: str, gateway: str) -> Link:
        """Return the interface that answers for the gateway of a pod: one that has this address,
        or, with proxy ARP, the interface towards the pod. Several interfaces may have it."""
        towards = self.towards(port)
        having = [link for link in self.links if gateway in map(str, link.ips)]
        if towards is not None and (towards in having or not having):
            return towards
        if not having:
            pod = self.pods[port].address
            raise ValueError(f"no interface here can be the router {gateway} of {pod}")
        return having[0]


def read_pods(ports: Sequence[str], node: bytes, pods: Sequence[bytes]) -> PodNetwork:
    """Return the network of pods. `node` is the output of ADDRESSES in the node; `pods` are, by
    port, those of ADDRESSES for the pod's interface and of ROUTES. Raise ValueError if an output is
    garbled or a pod has no IPv4 address."""
    try:
        found = {}
        for port, addresses, routes in zip(ports, pods[::2], pods[1::2], strict=True):
            (link,) = map(_link, _objects(addresses))
            if not link.addresses:
                raise ValueError(f"the pod at port {port} has no IPv4 address")
            found[port] = Pod(link, tuple(map(_route, _objects(routes))))
        return PodNetwork(found, [_link(link) for link in _objects(node)])
    except (KeyError, TypeError) as missing:
        raise ValueError(f"ip printed something without {missing}") from missing


def _objects(output: bytes) -> list[Mapping[str, Any]]:
    """Return the objects that a command of iproute2 printed. It prints empty objects, too, in place
    of interfaces that were not asked for."""
    printed = json.loads(output)
    if not isinstance(printed, list) or not all(isinstance(each, dict) for each in printed):
        raise ValueError("ip printed no list of objects")
    return [each for each in printed if each]


def _link(printed: Mapping[str, Any]) -> Link:
    return Link(
        index=int(printed["ifindex"]),
        name=str(printed["ifname"]),
        mac=str(printed["address"]),
        below=int(printed["link_index"]) if "link_index" in printed else None,
        master=str(printed.get("master", "")),
        addresses=tuple(
            IPv4Interface(f"{address['local']}/{address['prefixlen']}")
            for address in printed["addr_info"]
            if address.get("family") == "inet"
        ),
    )


def _route(printed: Mapping[str, Any]) -> Route:
    to = str(printed["dst"])
    return Route(
        IPv4Network("0.0.0.0/0" if to == "default" else to), str(printed.get("gateway", ""))
    )
