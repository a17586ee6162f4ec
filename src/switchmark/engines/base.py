"""This module says what a packet-I/O engine needs and what it can do. The engine itself is a file
of the same name in `traffic/engines/`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import TRAFFIC, program_path
from switchmark.model.plan import Node, Plan
from switchmark.model.test import AXES
from switchmark.model.topology import Endpoint, PortKind, Wiring
from switchmark.model.units import FRAME_MAX
from switchmark.model.version import Version

KERNEL_PORTS = frozenset(
    {
        *(PortKind.VETH, PortKind.TAP, PortKind.MACVLAN, PortKind.IPVLAN, PortKind.NETKIT),
        *(PortKind.VF, PortKind.NIC_KERNEL),
    }
)
"""Ports that are an interface of the kernel in the function's node."""


def traffic_program() -> str:
    """Return the path of `switchmark-traffic`, which SWITCHMARK_TRAFFIC may name."""
    return program_path(TRAFFIC)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine is the interface through which the traffic program sends and receives frames.
    `needs_ip`: frames go through the node's IP stack, which needs addresses. `privilege` is the
    least that opens its ports. `receiver` names the engine that receives where this one only sends.
    `napi`: it sends by XDP redirect. `flows_by` are the addresses that its flows may differ in, up
    to `flows_max` of them. `drivers` are the values that the axis `driver` may have, `resources`
    the axes that it follows, of those that are `followed_by` an engine (`model.axis`).
    `queue_a_core`: where a part has several cores, each opens a queue of the device. `own_memory`:
    its processes hold frames in memory that the axis `memory` chooses. `capabilities` are those of
    Linux, without `CAP_`, and `devices` the device files that it takes in a container.

    `chosen_for` are the kinds of ports for which `--engine auto` may choose it, of those that it
    opens (None: all). `sees_tags`: it sees a VLAN tag too that a switch in the kernel hands over
    beside the frame, as those do that an interface inserts; else `auto` leaves it out where frames
    are tagged."""

    name: str
    summary: str
    port_kinds: frozenset[PortKind] = KERNEL_PORTS
    privilege: Literal["user-namespace", "root"] = "user-namespace"
    needs_ip: bool = False
    receiver: str | None = None
    napi: bool = False
    vlan: bool = True
    flows_by: frozenset[str] = frozenset(AXES["flows_by"].choices)
    flows_max: int = 16384
    frame_max: int = FRAME_MAX
    touches: frozenset[str] = frozenset(AXES["touch"].choices)
    drivers: tuple[str, ...] = ()
    resources: frozenset[str] = frozenset()
    own_memory: bool = False
    queue_a_core: bool = False
    capabilities: frozenset[str] = frozenset({"NET_RAW"})
    devices: tuple[str, ...] = ()
    chosen_for: frozenset[PortKind] | None = None
    sees_tags: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def prepare(self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint]) -> Plan:
        """Return the steps that a process with these ports needs before it starts."""
        return ()

    def vm_megabytes(self, wiring: Wiring, endpoints: Sequence[Endpoint]) -> int:
        """Return the memory that a virtual machine needs for a process with these ports, beyond the
        usual."""
        return 0

    def port_options(
        self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint], index: int, driver: str
    ) -> Mapping[str, Any]:
        """Return the engine's options for one of the ports of the process at `node`. UsageError if
        `driver` does not fit its endpoint."""
        return self.options

    def device_queues(self, cores: int) -> int:
        """Return the pairs of queues that a device needs for a part on so many cores."""
        return cores if self.queue_a_core else 1

    def granted(self, kinds: Collection[PortKind], driver: str) -> frozenset[str]:
        """Return the capabilities that ports of these kinds take in a container."""
        return self.capabilities

    def probe(self, host: Host) -> Version:
        """Return the version of the traffic program that has this engine; Unavailable if none
        has."""
        try:
            done = host.run((traffic_program(), "engines"))
        except Unavailable as missing:
            raise Unavailable(missing.message, hint="make setup") from missing
        if done.status:
            raise Unavailable("switchmark-traffic does not list its engines", hint="make setup")
        built = json.loads(done.stdout)
        if self.name not in {engine["name"] for engine in built["engines"]}:
            raise Unavailable(
                f"this build of switchmark-traffic has no engine {self.name}: a library was "
                "missing when it was built",
                hint="make setup",
            )
        return Version(built["version"], verified="verified")
