"""What a scenario draws (parts, ports, flows), and what the driver of a switch gets (`Wiring`).

All of it is data. A *port* is one attachment to the switch; a *part* (the traffic program in a
role, or another function) has its far end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from switchmark.errors import UsageError
from switchmark.model.addresses import (
    mac_address,
    pci_address,
)
from switchmark.model.plan import HOST, OWN_DIR, PORTS_DIR, Node, Plan, Reserve
from switchmark.model.version import Version

_UNPROBED = Version("")


class PortKind(StrEnum):
    """How a port is attached to a switch."""

    VETH = "veth"
    TAP = "tap"
    VHOST_USER = "vhost-user"
    MEMIF = "memif"
    MACVLAN = "macvlan"
    IPVLAN = "ipvlan"
    NETKIT = "netkit"
    VF = "vf"
    VF_PCI = "vf-pci"
    NETMAP = "netmap"
    NIC_KERNEL = "nic-kernel"
    NIC_PCI = "nic-pci"
    NULL = "null"


class Semantics(StrEnum):
    """What a switch does with a frame; figures are never ranked across these."""

    PATCH = "patch"
    STATIC = "static"
    LEARNING = "learning"
    ROUTED = "routed"


class Role(StrEnum):
    """What the traffic program does."""

    SENDER = "sender"
    RECEIVER = "receiver"
    CLIENT = "client"
    SERVER = "server"
    FORWARDER = "forwarder"


@dataclass(frozen=True, slots=True)
class Port:
    """One attachment to a switch."""

    id: str
    """Unique in the topology, such as `f0` or `f1.0`."""
    index: int
    """Its number in the topology, from 0."""
    part: str
    """The id of the part at its far end."""
    physical: bool = False
    """It stands for a real NIC, whatever it is attached by."""
    nic: str | None = None
    """The NIC at the switch, by interface or PCI address; None where it is no real NIC."""
    nic_peer: str | None = None
    """The NIC at the other end of that cable, which the traffic program opens."""
    uplink: Literal["", "made", "named"] = ""
    """It leads to another host, by a cable that is `made` for the test or `named`: `nic` is the end
    here."""
    node: Node = HOST
    """The node of the part at its far end."""
    given: Endpoint | None = None
    """What the switch opens where it is a function itself."""
    next_mac: str = ""
    """The destination MAC of what leaves here, where the switch is a function that writes MACs."""

    @property
    def pci(self) -> bool:
        """Say whether it is a NIC by its PCI address, which a driver of user space opens."""
        return self.nic is not None and pci_address(self.nic) is not None


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """A part as a scenario draws it: a program with ports. A path resolves it to its drivers."""

    id: str
    """As records name it, such as `f0` or `a0`."""
    function: str
    """The name of its function."""
    physical: bool
    """Its ports are physical."""
    ports: tuple[Port, ...]
    """Its ports, in order."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Frames from one port to another."""

    id: str
    """As records name it, such as `f0-f1`."""
    index: int
    """The number that its frames carry. Flows of one number are copies of the same frames, which
    the switch makes."""
    source: str
    """The id of the port that the frames come from."""
    sink: str
    """The id of the port that they are for."""
    hops: tuple[str, ...] = ()
    """The ports of the functions between, in order: in at one, out at the next."""
    split: int | None = None
    """The number (from 0) of the chain that it takes, where several share its ends; its frames then
    have a source MAC of their own."""

    @property
    def crossings(self) -> tuple[tuple[str, str], ...]:
        """Return each way through the switch: the ports where a frame comes in and leaves."""
        ports = (self.source, *self.hops, self.sink)
        return tuple(zip(ports[::2], ports[1::2], strict=True))


@dataclass(slots=True)
class Topology:
    """What a scenario draws on."""

    parts: list[DrawnPart] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    _ports: int = 0

    def physical(self, name: str, *, nic: str | None = None, nic_peer: str | None = None) -> Port:
        """Draw a physical port with the traffic program at its far end."""
        return self._part(name, "traffic", 1, True, nic, nic_peer).ports[0]

    def function(self, name: str, function: str = "traffic", ports: int = 1) -> tuple[Port, ...]:
        """Draw a network function with `ports` ports."""
        return self._part(name, function, ports, False, None, None).ports

    def flow(
        self,
        source: Port,
        sink: Port,
        *hops: Port,
        split: int | None = None,
        copy_of: Flow | None = None,
    ) -> Flow:
        """Draw the frames from `source` to `sink`, through the functions whose ports `hops` names;
        or copies of those of another flow."""
        way = "" if split is None else f"c{split + 1}-"
        new = Flow(
            f"{source.part}-{way}{sink.part}",
            len({flow.index for flow in self.flows}) if copy_of is None else copy_of.index,
            source.id,
            sink.id,
            tuple(hop.id for hop in hops),
            split,
        )
        self.flows.append(new)
        return new

    @property
    def crossings(self) -> tuple[Flow, ...]:
        """Return the flows as a switch is told them: from one of its ports to another, once
        each."""
        parts = {port.id: port.part for port in self.ports}
        crossings: dict[tuple[str, str], Flow] = {}
        numbers: dict[tuple[int, str], int] = {}
        for flow in self.flows:
            for source, sink in flow.crossings:
                if (source, sink) in crossings:
                    continue
                # Copies have one number, here as there.
                number = numbers.setdefault((flow.index, source), len(numbers))
                name = f"{parts[source]}-{parts[sink]}"
                # Only where the chains part does a frame's source say which of them it takes.
                split = flow.split if source == flow.source else None
                crossings[source, sink] = Flow(name, number, source, sink, split=split)
        return tuple(crossings.values())

    @property
    def ports(self) -> tuple[Port, ...]:
        return tuple(port for part in self.parts for port in part.ports)

    def place(self, nodes: Mapping[str, Node]) -> None:
        """Note at each port the node of its part, by the id of the part."""
        self.parts = [
            replace(part, ports=tuple(replace(p, node=nodes[part.id]) for p in part.ports))
            for part in self.parts
        ]

    def _part(
        self,
        name: str,
        function: str,
        count: int,
        physical: bool,
        nic: str | None,
        nic_peer: str | None,
    ) -> DrawnPart:
        if any(part.id == name for part in self.parts):
            raise UsageError(f"the scenario draws two parts named {name}")
        ports = tuple(
            Port(
                id=name if count == 1 else f"{name}.{i}",
                index=self._ports + i,
                part=name,
                physical=physical,
                nic=nic,
                nic_peer=nic_peer,
            )
            for i in range(count)
        )
        self._ports += count
        part = DrawnPart(name, function, physical, ports)
        self.parts.append(part)
        return part


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The function's end of a port."""

    kind: PortKind
    """What the function opens."""
    mac: str
    """The MAC of this end."""
    ifname: str = ""
    """The interface in the node of the function, if it is one."""
    switch_ifname: str = ""
    """The interface at the switch; empty where the switch has none."""
    staged: str = ""
    """The name of the interface at the switch until the environment moves it into the function's
    node; empty for one that is not moved."""
    in_place: bool = False
    """The switch makes the interface in the function's node: nobody has to move it."""
    path: str = ""
    """The socket of a vhost-user port or a memif."""
    server: bool = False
    """The function listens on the socket; else the switch does."""
    backend: bool = False
    """The function has the vhost side of a vhost-user port; else the virtio side."""
    device: str = ""
    """The PCI address of a NIC of the host that the function opens past the kernel."""
    guest_device: str = ""
    """The PCI address of a NIC of the function's virtual machine."""
    mtu: int = 1500
    """The longest IP packet that the port carries, in bytes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Where programs of user space keep their frames."""

    kind: Literal["hugepages", "no-huge"] = "hugepages"
    """What its pages are."""
    node: int = 0
    """The NUMA node of the CPUs of the switch."""

    @property
    def huge(self) -> bool:
        """Say whether its pages are hugepages."""
        return self.kind == "hugepages"

    def reserve(self, why: str, megabytes: int) -> Plan:
        """Return the step that reserves hugepages for a program; none where it has no hugepages."""
        return (Reserve(why, megabytes, node=self.node),) if self.huge else ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of a switch's program that its driver names in `resources` if it follows them."""

    burst: int | None = None
    """The most frames that it takes from a port at once; None for its own default."""
    buffers: int | None = None
    """Frames that its pool has room for; None for its own default."""
    fixed_queues: bool = False
    """Each receive queue stays with one of the switch's CPUs, in turn."""


@dataclass(frozen=True, slots=True)
class Functions:
    """What the functions do at their ends of the ports, where it matters to who makes the ports."""

    napi: bool = False
    """They send by XDP redirect, which a veth takes only if its peer polls (NAPI)."""
    ip_stack: bool = False
    """Their frames go through the IP stacks of their nodes."""
    listen: bool = False
    """They create the sockets of vhost-user ports, and the switch connects to these."""
    queues: int = 1
    """Pairs of queues of a veth."""
    cores: int = 1
    """CPUs of each function that the traffic program plays."""
    burst: int = 32
    """The most frames that a function sends at once."""
    offload: Literal["auto", "off"] = "auto"
    """Whether they use the checksums and timestamps of their devices."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Everything that the driver of a switch needs to know of one test."""

    prefix: str
    """The beginning of every name that is made, such as `sm3f2a`."""
    run_dir: str
    """The folder of the run; programs write to its `ports_dir` and `own_dir`."""
    at: Node
    """The node of the switch."""
    ports: tuple[Port, ...]
    """The ports, in the order in which the scenario draws them."""
    flows: tuple[Flow, ...]
    """Where frames go, from port to port; `ways` has their answers too. A flow through functions is
    several here: the switch knows of no chain."""
    kind: PortKind
    """How ports are attached that are no real NICs."""
    semantics: Semantics
    """What the switch is to do with a frame."""
    version: Version = _UNPROBED
    """What a probe of the switch found: its variant and the paths of its program and files."""
    mtu: int = 1500
    """The longest IP packet that the ports carry, in bytes."""
    cores: tuple[int, ...] = ()
    """The CPUs of a switch that polls."""
    queues: int = 1
    """Pairs of queues of each port."""
    descriptors: int | None = None
    """The length of each queue; None for the default of the program that makes it."""
    memory: Memory = Memory()
    """Where the switch and the functions keep frames."""
    tuning: Tuning = Tuning()
    """Settings of the program of the switch."""
    functions: Functions = Functions()
    """What the functions do at their ends of the ports."""

    @property
    def program(self) -> str:
        """Return the path of the program of the switch; empty for the kernel."""
        return self.version.program

    @property
    def given(self) -> Mapping[str, Endpoint]:
        """Return the ends that the switch opens where it is a function itself, by port; else
        none."""
        return {port.id: port.given for port in self.ports if port.given}

    @property
    def ports_dir(self) -> str:
        """Return the folder of the sockets of ports, and of what functions write: every node sees
        it."""
        return f"{self.run_dir}/{PORTS_DIR}"

    @property
    def own_dir(self) -> str:
        """Return the folder of what the switch writes and is controlled by: its node sees it, and
        no function does. That of a switch that is a function is the functions'."""
        return self.ports_dir if self.given else f"{self.run_dir}/{OWN_DIR}"

    def source_mac(self, flow: Flow) -> str:
        """Return the source MAC of a flow's frames: that of its port, or of its chain."""
        index = self.port(flow.source).index
        if flow.split is None:
            return mac_address(index)
        return mac_address(index << 8 | flow.split, split=True)

    @property
    def ways(self) -> Mapping[str, Mapping[str, str | None]]:
        """Return where frames go from each port: the ports that they leave by, each with the source
        MAC that says so, where several chains share a port.

        `flows` go one way. In a test of latency every frame is answered: a port that no flow begins
        at sends to the port that its frames came from. Rules for each direction are made of these.
        """
        ways: dict[str, dict[str, str | None]] = {port.id: {} for port in self.ports}
        for flow in self.flows:
            mac = None if flow.split is None else self.source_mac(flow)
            ways[flow.source][flow.sink] = mac
        for port_id in [port_id for port_id, sinks in ways.items() if not sinks]:
            sources = [flow.source for flow in self.flows if flow.sink == port_id]
            if len(sources) == 1:
                ways[port_id][sources[0]] = None
        return ways

    def copies(self, flow: Flow) -> tuple[Flow, ...]:
        """Return the flows that carry the frames of this one, itself among them."""
        return tuple(each for each in self.flows if each.index == flow.index)

    def port(self, port_id: str) -> Port:
        return next(port for port in self.ports if port.id == port_id)

    def name(self, suffix: str) -> str:
        """Return a name of this run for an interface or node; the kernel holds 15 bytes."""
        name = f"{self.prefix}-{suffix}"
        if len(name) > 15:
            raise UsageError(f"the interface name '{name}' is longer than 15 bytes")
        return name


@dataclass(frozen=True, slots=True)
class Between:
    """What is between the two hosts of a test."""

    cables: tuple[tuple[str, str], ...] = ()
    """The interfaces that join the hosts, in pairs, that of the first host first; without any, veth
    pairs are made."""
    foreign: frozenset[str] = frozenset()
    """The hosts that have a kernel of their own, and so a clock of their own."""
    one_machine: bool = False
    """Both hosts are the same machine."""
    emulated: str = ""
    """How the cables are emulated, in words; empty for real ones."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """The path of the traffic program, by host, on hosts that have it elsewhere."""
    doubts: tuple[str, ...] = ()
    """The doubts of every trial there."""


NOTHING = Between()
"""Nothing is between the ends of a local test."""
