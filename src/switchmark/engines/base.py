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
    """The interface through which the traffic program sends and receives frames."""

    name: str
    """The name on the command line."""
    summary: str
    """A short description, for `switchmark list`."""
    port_kinds: frozenset[PortKind] = KERNEL_PORTS
    """The kinds of ports that it opens."""
    privilege: Literal["user-namespace", "root"] = "user-namespace"
    """The least privilege that opens its ports."""
    needs_ip: bool = False
    """Whether frames pass the node's IP stack, which needs addresses."""
    receiver: str | None = None
    """The name of the engine that receives, if this engine only sends."""
    napi: bool = False
    """Whether it sends by XDP redirect."""
    vlan: bool = True
    """Whether it can send frames with a VLAN tag or in a tunnel."""
    flows_by: frozenset[str] = frozenset(AXES["flows_by"].choices)
    """The addresses in which its flows may differ."""
    flows_max: int = 16384
    """The largest number of its flows."""
    frame_max: int = FRAME_MAX
    """The largest frame, in bytes with the FCS."""
    touches: frozenset[str] = frozenset(AXES["touch"].choices)
    """The supported values of the axis `touch`."""
    drivers: tuple[str, ...] = ()
    """The valid values of the axis `driver`."""
    resources: frozenset[str] = frozenset()
    """The supported axes among those that are `followed_by` an engine (`model.axis`)."""
    emulated: frozenset[PortKind] = frozenset()
    """The kinds of ports that were verified only in virtual machines with emulated NICs: that they
    work, not how fast they are."""
    stamped: frozenset[PortKind] = frozenset()
    """The kinds of ports whose devices may have a clock that timestamps arriving frames."""
    user_memory: bool = False
    """Whether the axis `memory` chooses the memory in which processes hold frames."""
    queue_a_core: bool = False
    """Whether each core of a part opens a queue of the device."""
    reconnects: bool = False
    """Whether a port that connects to the socket of a switch connects again to the next switch."""
    capabilities: frozenset[str] = frozenset({"NET_RAW"})
    """The Linux capabilities, without `CAP_`, that it needs in a container."""
    devices: tuple[str, ...] = ()
    """The device files that it needs in a container."""
    packet_frames: int = 1
    """The largest number of frames that it passes to the kernel as one packet, which the sending
    device splits. Above 1, these frames have one flow, and the kernel numbers their IPv4
    identifications."""
    chosen_for: frozenset[PortKind] | None = None
    """The kinds of ports for which `--engine auto` may choose it; None for all that it opens."""
    chosen_frame_max: int = FRAME_MAX
    """The largest frame for which `auto` chooses it, in bytes with the FCS."""
    sees_tags: bool = True
    """Whether it also sees a VLAN tag that the kernel passes next to the frame, in the metadata of
    the skb. `auto` chooses no other engines for tagged frames."""
    options: dict[str, Any] = field(default_factory=dict)
    """Its options for every port."""
    loads_with: str = "make setup"
    """The command that installs its libraries, where it is a module (traffic/src/modules.h)."""

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
            completed = host.run((traffic_program(), "engines"))
        except Unavailable as missing:
            raise Unavailable(missing.message, hint="make setup") from missing
        if completed.status:
            raise Unavailable("switchmark-traffic does not list its engines", hint="make setup")
        built = json.loads(completed.stdout)
        if self.name not in {engine["name"] for engine in built["engines"]}:
            reasons = [
                f"{module['file']}: {module['why']}"
                for module in built.get("unloaded", ())
                if module["name"] == self.name
            ]
            if reasons:
                raise Unavailable(
                    "\n  ".join((f"engine {self.name} cannot be loaded", *reasons)),
                    hint=self.loads_with,
                )
            if unsearched := built.get("unsearched"):
                raise Unavailable(
                    f"switchmark-traffic cannot look for engines next to it: {unsearched}"
                )
            raise Unavailable(
                f"this build of switchmark-traffic has no engine {self.name}: a library was "
                "missing when it was built",
                hint="make setup",
            )
        return Version(
            built["version"],
            verified="verified",
            verified_ports=dict.fromkeys(sorted(self.emulated), "verified in a VM"),
        )
