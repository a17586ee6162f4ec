"""The contract of a packet-I/O engine: its needs and its features. The engine itself is a C file of
the same name in `traffic/engines/`."""

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
"""Ports that are kernel interfaces in the function's node."""


def traffic_program() -> str:
    """Return the path of `switchmark-traffic`, which SWITCHMARK_TRAFFIC may name."""
    return program_path(TRAFFIC)


@dataclass(frozen=True, slots=True)
class Engine:
    """The interface through which the traffic program sends and receives frames.

    `needs_ip`: frames pass the node's IP stack, which needs addresses. `privilege` is the least
    privilege that opens its ports. `receiver` names the engine that receives if this engine only
    sends. `napi`: the engine sends by XDP redirect. `flows_by` lists the addresses in which its
    flows may differ, up to `flows_max` of them. `drivers` are the valid values of the axis
    `driver`, `resources` the supported axes among those that are `followed_by` an engine
    (`model.axis`). `queue_a_core`: each core of a part opens a queue of the device. `user_memory`:
    the axis `memory` chooses the memory in which processes hold frames. In a container the engine
    needs the Linux `capabilities` (without `CAP_`) and the device files `devices`.

    `chosen_for` are the kinds of ports for which `--engine auto` may choose the engine (None: all
    that it opens). `sees_tags`: the engine also sees a VLAN tag that the kernel passes next to the
    frame, in the metadata of the skb. `auto` chooses no other engines for tagged frames.
    """

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
    user_memory: bool = False
    queue_a_core: bool = False
    capabilities: frozenset[str] = frozenset({"NET_RAW"})
    devices: tuple[str, ...] = ()
    chosen_for: frozenset[PortKind] | None = None
    sees_tags: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def prepare(self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint]) -> Plan:
        """Return the steps to run before a process with these ports starts."""
        return ()

    def vm_megabytes(self, wiring: Wiring, endpoints: Sequence[Endpoint]) -> int:
        """Return the extra memory that a virtual machine needs for a process with these ports."""
        return 0

    def port_options(
        self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint], index: int, driver: str
    ) -> Mapping[str, Any]:
        """Return the engine's options for port `index` of the process at `node`. UsageError if
        `driver` does not fit the endpoint."""
        return self.options

    def device_queues(self, cores: int) -> int:
        """Return the number of queue pairs that a device needs for a part on this many cores."""
        return cores if self.queue_a_core else 1

    def granted(self, kinds: Collection[PortKind], driver: str) -> frozenset[str]:
        """Return the capabilities that ports of these kinds need in a container."""
        return self.capabilities

    def probe(self, host: Host) -> Version:
        """Return the version of the traffic program that contains this engine; Unavailable if the
        program does not contain it."""
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
