"""The topology of a scenario (parts, ports, flows), and the input of a switch driver (`Wiring`).

All of it is data. A *port* is an attachment to the switch. A *part* (the traffic program in a role,
or another function) is at its far end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from switchmark.errors import UsageError
from switchmark.model.addresses import (
    mac_address,
    pci_address,
)
from switchmark.model.plan import HOST, PORTS_DIR, SWITCH_DIR, Node, Plan, Reserve
from switchmark.model.version import Version

_UNPROBED = Version("")


class PortKind(StrEnum):
    """The kinds of attachments of a port to a switch."""

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
    """How a switch forwards frames; figures are never ranked across semantics."""

    PATCH = "patch"
    STATIC = "static"
    LEARNING = "learning"
    ROUTED = "routed"


class Role(StrEnum):
    """The roles of the traffic program."""

    SENDER = "sender"
    RECEIVER = "receiver"
    CLIENT = "client"
    SERVER = "server"
    FORWARDER = "forwarder"


@dataclass(frozen=True, slots=True)
class Port:
    """An attachment to a switch."""

    id: str
    """Unique in the topology, such as `f0` or `f1.0`."""
    index: int
    """Its number in the topology, from 0."""
    part: str
    """The id of the part at its far end."""
    physical: bool = False
    """Whether it stands for a real NIC, whatever its kind."""
    nic: str | None = None
    """The NIC at the switch, by interface or PCI address; None if the port is not a real NIC."""
    nic_peer: str | None = None
    """The NIC at the other end of that cable, which the traffic program opens."""
    uplink: Literal["", "made", "named"] = ""
    """The cable to another host, `made` for the test or `named` by the user; `nic` is its local
    end."""
    node: Node = HOST
    """The node of the part at its far end."""
    given: Endpoint | None = None
    """The endpoint that the switch opens if it is a function itself."""
    next_mac: str = ""
    """The destination MAC of frames sent here, if the switch is a function that rewrites MACs."""

    @property
    def pci(self) -> bool:
        """Say whether it is a NIC by PCI address, which a user-space driver opens."""
        return self.nic is not None and pci_address(self.nic) is not None


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """A part of a scenario: a program with ports. A path resolves it to its drivers."""

    id: str
    """Its name in records, such as `f0` or `a0`."""
    function: str
    """The name of its function."""
    physical: bool
    """Whether its ports are physical."""
    ports: tuple[Port, ...]
    """Its ports, in order."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Frames from one port to another."""

    id: str
    """Its name in records, such as `f0-f1`."""
    index: int
    """The number that its frames carry. Flows with the same number are copies of the same frames,
    which the switch makes."""
    source: str
    """The id of the source port."""
    sink: str
    """The id of the destination port."""
    hops: tuple[str, ...] = ()
    """The ports of the functions in between, in order: in at a port, out at the next."""
    split: int | None = None
    """The number (from 0) of its chain, if several chains share its ends; its frames then have a
    separate source MAC."""

    @property
    def crossings(self) -> tuple[tuple[str, str], ...]:
        """Return its passes through the switch: pairs of an input port and an output port."""
        ports = (self.source, *self.hops, self.sink)
        return tuple(zip(ports[::2], ports[1::2], strict=True))


@dataclass(slots=True)
class Topology:
    """The parts and flows of a scenario, built step by step."""

    parts: list[DrawnPart] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    _ports: int = 0

    def physical(self, name: str, *, nic: str | None = None, nic_peer: str | None = None) -> Port:
        """Add a physical port with the traffic program at its far end."""
        return self._part(name, "traffic", 1, True, nic, nic_peer).ports[0]

    def function(self, name: str, function: str = "traffic", ports: int = 1) -> tuple[Port, ...]:
        """Add a network function with `ports` ports."""
        return self._part(name, function, ports, False, None, None).ports

    def flow(
        self,
        source: Port,
        sink: Port,
        *hops: Port,
        split: int | None = None,
        copy_of: Flow | None = None,
    ) -> Flow:
        """Add a flow from `source` to `sink`, through the functions with the ports `hops`.

        `copy_of` makes it a copy of the frames of another flow."""
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
        """Return the flows from the switch's point of view: from port to port, without
        duplicates."""
        parts = {port.id: port.part for port in self.ports}
        crossings: dict[tuple[str, str], Flow] = {}
        numbers: dict[tuple[int, str], int] = {}
        for flow in self.flows:
            for source, sink in flow.crossings:
                if (source, sink) in crossings:
                    continue
                # Copies share a number here, too.
                number = numbers.setdefault((flow.index, source), len(numbers))
                name = f"{parts[source]}-{parts[sink]}"
                # The source of a frame selects its chain only at the port where the chains split.
                split = flow.split if source == flow.source else None
                crossings[source, sink] = Flow(name, number, source, sink, split=split)
        return tuple(crossings.values())

    @property
    def ports(self) -> tuple[Port, ...]:
        return tuple(port for part in self.parts for port in part.ports)

    def place(self, nodes: Mapping[str, Node]) -> None:
        """Set the node of every port to the node of its part, by part id."""
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
    """The kind of port that the function opens."""
    mac: str
    """The MAC of this end."""
    ifname: str = ""
    """The interface in the node of the function; empty if it is not an interface."""
    switch_ifname: str = ""
    """The interface at the switch; empty if the switch has no interface."""
    staged: str = ""
    """The temporary name of the interface at the switch, before the environment moves it into the
    function's node; empty if it stays."""
    in_place: bool = False
    """Whether the switch creates the interface in the function's node, so that it need not move."""
    found: bool = False
    """Whether the interface was in the function's node before, so that the run leaves it as it
    is."""
    addressed: bool = False
    """Whether the switch gives the interface its IP address, its routes and its neighbours."""
    path: str = ""
    """The socket of a vhost-user port or memif."""
    server: bool = False
    """Whether the function listens on the socket; otherwise the switch does."""
    backend: bool = False
    """Whether the function has the vhost side of a vhost-user port; otherwise the virtio side."""
    device: str = ""
    """The PCI address of a NIC of the host that the function opens with kernel bypass."""
    guest_device: str = ""
    """The PCI address of a NIC of the function's virtual machine."""
    mtu: int = 1500
    """The MTU of the port, in bytes."""


def guest_devices(endpoints: Iterable[Endpoint]) -> tuple[str, ...]:
    """Return the addresses of the NICs that a program in a virtual machine opens directly; empty if
    it runs on the host's kernel."""
    return tuple(end.guest_device for end in endpoints if end.guest_device)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory in which user-space programs keep frames."""

    kind: Literal["hugepages", "no-huge"] = "hugepages"
    """The kind of its pages."""
    node: int = 0
    """The NUMA node of the CPUs of the switch."""

    @property
    def huge(self) -> bool:
        """Say whether its pages are hugepages."""
        return self.kind == "hugepages"

    def reserve(self, why: str, megabytes: int) -> Plan:
        """Return the step that reserves hugepages for a program; empty without hugepages."""
        return (Reserve(why, megabytes, node=self.node),) if self.huge else ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of a switch program; its driver names those that it supports in `resources`."""

    burst: int | None = None
    """The burst size, in frames; None for the default of the program."""
    buffers: int | None = None
    """The size of the buffer pool, in frames; None for the default of the program."""
    fixed_queues: bool = False
    """Whether receive queues are pinned to the CPUs of the switch, round-robin."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The properties of the functions that matter to the code that creates the ports."""

    napi: bool = False
    """Whether they send by XDP redirect, which a veth accepts only if its peer polls (NAPI)."""
    ip_stack: bool = False
    """Whether their frames pass the IP stacks of their nodes."""
    listen: bool = False
    """Whether they create the sockets of vhost-user ports, to which the switch connects."""
    queues: int = 1
    """Queue pairs of a veth."""
    cores: int = 1
    """CPUs per sender, receiver and forwarder of the traffic program."""
    burst: int = 32
    """The burst size of the functions, in frames."""
    offload: Literal["on", "off"] = "off"
    """Whether their devices compute checksums, if they can."""
    stamps: Literal["software", "device"] = "software"
    """The source of the arrival times of received frames."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Everything that a switch driver needs to know about a test."""

    prefix: str
    """The prefix of all names of the run, such as `sm3f2a`."""
    run_dir: str
    """The folder of the run; programs write to its `ports_dir` and `switch_dir`."""
    node: Node
    """The node of the switch."""
    ports: tuple[Port, ...]
    """The ports, in the order of the scenario."""
    flows: tuple[Flow, ...]
    """The flows from port to port, without the answers, which `ways` adds. A flow through functions
    is several flows here, as the switch does not know chains."""
    kind: PortKind
    """The kind of the ports that are not real NICs."""
    semantics: Semantics
    """How the switch forwards frames."""
    version: Version = _UNPROBED
    """The result of a probe of the switch: its variant and the paths of its program and files."""
    mtu: int = 1500
    """The MTU of the ports, in bytes."""
    cores: tuple[int, ...] = ()
    """The CPUs of a polling switch."""
    queues: int = 1
    """Queue pairs per port."""
    descriptors: int | None = None
    """The ring size of a queue, in frames; None for the default of the program that creates it."""
    memory: Memory = Memory()
    """The memory of the frames of the switch and the functions."""
    tuning: Tuning = Tuning()
    """Settings of the program of the switch."""
    functions: Functions = Functions()
    """The properties of the functions at their ends of the ports."""
    answers: tuple[bytes, ...] = ()
    """The outputs of the commands that the switch `asks` after its start; empty before that."""

    @property
    def program(self) -> str:
        """Return the path of the switch program; empty for a kernel switch."""
        return self.version.program

    @property
    def given(self) -> Mapping[str, Endpoint]:
        """Return the endpoints that the switch opens if it is a function itself, by port; empty
        otherwise."""
        return {port.id: port.given for port in self.ports if port.given}

    @property
    def ports_dir(self) -> str:
        """Return the folder of the sockets of ports and the files of functions, which all nodes can
        access."""
        return f"{self.run_dir}/{PORTS_DIR}"

    @property
    def switch_dir(self) -> str:
        """Return the folder of the switch's files and control sockets, which only its node can
        access. A switch that is a function uses the folder of the functions."""
        return self.ports_dir if self.given else f"{self.run_dir}/{SWITCH_DIR}"

    def source_mac(self, flow: Flow) -> str:
        """Return the source MAC of a flow's frames: the MAC of its port, or of its chain."""
        index = self.port(flow.source).index
        if flow.split is None:
            return mac_address(index)
        return mac_address(index << 8 | flow.split, split=True)

    @property
    def ways(self) -> Mapping[str, Mapping[str, str | None]]:
        """Return the output ports for every input port, with the source MAC that selects the output
        if several chains share the port.

        `flows` go one way. In a latency test every frame is answered: a port without a flow of its
        own sends to the port that its frames came from. Drivers make rules for both directions from
        this.
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
        """Return the flows that carry copies of this flow's frames, itself included."""
        return tuple(other for other in self.flows if other.index == flow.index)

    def port(self, port_id: str) -> Port:
        return next(port for port in self.ports if port.id == port_id)

    def name(self, suffix: str) -> str:
        """Return a name of this run for an interface or node; the kernel allows 15 bytes."""
        name = f"{self.prefix}-{suffix}"
        if len(name) > 15:
            raise UsageError(f"the interface name '{name}' is longer than 15 bytes")
        return name


@dataclass(frozen=True, slots=True)
class HandedNic:
    """A NIC that a program opens past the kernel."""

    address: str
    """Its PCI address."""
    driver: str
    """The driver that hands it to programs; empty for the default."""


@dataclass(frozen=True, slots=True)
class Between:
    """The connection between the two hosts of a test."""

    cables: tuple[tuple[str, str], ...] = ()
    """The cables between the hosts, as pairs of interfaces, the first host's first; if empty, veth
    pairs are created."""
    foreign: frozenset[str] = frozenset()
    """The hosts with another kernel than this one, and so with another clock."""
    one_machine: bool = False
    """Whether both hosts are the same machine."""
    emulated: str = ""
    """How the cables are emulated, in words; empty for real cables."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """The path of the traffic program by host, on hosts with another path."""
    doubts: tuple[str, ...] = ()
    """The doubts of every trial between these hosts."""
    handed: Mapping[tuple[str, str], HandedNic] = field(default_factory=dict)
    """The ends of cables that a switch on DPDK opens past the kernel, by host and interface."""


NOTHING = Between()
"""The connection of a local test: none."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of probes of a test's hosts, as far as its path depends on them."""

    mode: str | None = None
    """The mode of the switch."""
    modes: Mapping[str, str | None] = field(default_factory=dict)
    """The modes of the environments, by name."""
    programs: Mapping[tuple[str, str], Version] = field(default_factory=dict)
    """The versions of the switch and of a function that is a separate program, by host and name."""
    between: Between = NOTHING
    """The connection between two hosts."""
    answers: tuple[bytes, ...] = ()
    """The outputs of the commands that the switch `asks` after its start; empty before that."""


NOT_PROBED = Findings()
"""The findings of a path that is drawn without its hosts."""
