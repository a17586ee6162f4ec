"""This module holds what a scenario draws and a switch is given.

All of it is data; nothing here is alive. A *port* is one attachment to the switch; its far end is
held by a *part* (the traffic program in a role, or another function).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from switchmark.errors import UsageError
from switchmark.model.addresses import (
    mac_address,
    pci_address,
)
from switchmark.model.plan import OWN_DIR, PORTS_DIR, Node
from switchmark.model.version import Version


class PortKind(StrEnum):
    """A kind says how a port is attached to a switch."""

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
    """The semantics of a switch say what it does with a frame; figures are never ranked across
    these."""

    PATCH = "patch"
    STATIC = "static"
    LEARNING = "learning"
    ROUTED = "routed"


class Role(StrEnum):
    """A role says what the traffic program does."""

    SENDER = "sender"
    RECEIVER = "receiver"
    CLIENT = "client"
    SERVER = "server"
    FORWARDER = "forwarder"


@dataclass(frozen=True, slots=True)
class Port:
    """A port is one attachment to a switch: `id` is unique in the topology, `index` counts from 0.

    `nic` names the switch's end when the port is a real NIC, by its interface or its PCI address;
    `nic_peer` the NIC at the other end of its cable, which the traffic program opens. An `uplink`
    leads to another host, by a cable that is `made` for the test or `named`: `nic` is its end here.
    """

    id: str
    index: int
    part: str
    physical: bool = False
    nic: str | None = None
    nic_peer: str | None = None
    uplink: Literal["", "made", "named"] = ""

    @property
    def pci(self) -> bool:
        """Say whether it is a NIC by its PCI address, which a driver of user space opens."""
        return self.nic is not None and pci_address(self.nic) is not None


@dataclass(frozen=True, slots=True)
class Part:
    """A part is a program with ports: `id` as in a record (`f0`, `a0`), its function, its ports."""

    id: str
    function: str
    physical: bool
    ports: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow is frames from one port to another; `index` is the flow number carried by its frames.
    Flows of one index are copies of the same frames, which the switch makes.

    `hops` are the ports of functions between, in order: in at one, out at the next. `split` is the
    number (from 0) of the chain that it takes, where several share its ends; its frames then have a
    source MAC of their own.
    """

    id: str
    index: int
    source: str
    sink: str
    hops: tuple[str, ...] = ()
    split: int | None = None

    @property
    def crossings(self) -> tuple[tuple[str, str], ...]:
        """Return each way through the switch: the ports where a frame comes in and leaves."""
        ports = (self.source, *self.hops, self.sink)
        return tuple(zip(ports[::2], ports[1::2], strict=True))


@dataclass(slots=True)
class Topology:
    """A topology is the sheet that a scenario draws on."""

    parts: list[Part] = field(default_factory=list)
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

    def _part(
        self,
        name: str,
        function: str,
        count: int,
        physical: bool,
        nic: str | None,
        nic_peer: str | None,
    ) -> Part:
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
        part = Part(name, function, physical, ports)
        self.parts.append(part)
        return part


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint is the function's end of a port, and the switch's, as it is counted.

    `ifname` is the interface in the function's node, `switch_ifname` the one at the switch (empty
    where the switch has none); `path` is a socket for vhost-user and memif and `server` says that
    the function's side listens on it, `backend` that it is the vhost side of a vhost-user port,
    where it is else the virtio side. `device` is the PCI address of the host's NIC that the
    function opens past the kernel, `guest_device` that of its virtual machine's. A kernel interface
    is created at the switch under `staged` and moved into the function's node by the environment,
    but where it was made `in_place`.
    """

    kind: PortKind
    mac: str
    ifname: str = ""
    switch_ifname: str = ""
    staged: str = ""
    in_place: bool = False
    path: str = ""
    server: bool = False
    backend: bool = False
    device: str = ""
    guest_device: str = ""
    mtu: int = 1500


@dataclass(frozen=True, slots=True)
class Wiring:
    """A wiring is all that a switch is told: its ports, flows, node and resources.

    `flows` say where frames are sent to; `ways` also where their answers go, which a switch of
    fixed rules must let through. Of a flow through functions a switch sees each crossing from port
    to port as a flow: it knows of no chain. `given` is empty but where the switch is a function
    itself: then it holds the endpoints that it is to open, by port.

    `prefix` begins the name of everything made (`sm3f2a`); `run_dir` is the run's folder, of which
    programs have two: `ports_dir` and `own_dir`. `nodes` maps a part's id to the node that it runs
    in. `kind` is how ports are attached and `semantics` what the switch is to do with a frame.
    `mode` is what its probe told (the datapath, for instance). `napi` says that the functions send
    by XDP redirect, which a veth takes only if its peer polls (NAPI), `ip_stack` that their frames
    go through the IP stacks of their nodes. `isolated`: the switch's node has a network stack of
    its own. `cores` are the CPUs of one that polls, `node` their NUMA node; `queues` the pairs of
    queues of a port, `descriptors` the length of each (None: the default of who makes them).
    `program` is the path of the switch's, empty for the kernel's, and `beside` are those of other
    files of its installation, by name; `probed` has what probes found on the hosts, by host and by
    name of switch or function. `burst` is the most frames that a function sends at once, `memory`
    what DPDK lives in, `offload` whether functions use their devices' checksums and times.
    `switch_burst` is the most frames that the switch is to take at once, `buffers` what its memory
    is to have room for (None: its own default). `listen`: which side of vhost-user ports does.
    `function_cores` are those of each function that the traffic program plays, `veth_queues` the
    pairs of queues of a veth. `rx_affinity`: whether each receive queue stays with one of its
    `cores`, in turn. `next_macs` is empty but where the switch is a function that writes MACs: then
    it says, by port, for whom the frames are that leave there. `reaches` are the environments in
    whose nodes interfaces can be made from the switch's.
    """

    prefix: str
    run_dir: str
    at: Node
    ports: tuple[Port, ...]
    flows: tuple[Flow, ...]
    nodes: Mapping[str, Node]
    kind: PortKind
    semantics: Semantics
    mode: str | None = None
    mtu: int = 1500
    napi: bool = False
    ip_stack: bool = False
    isolated: bool = False
    cores: tuple[int, ...] = ()
    node: int = 0
    queues: int = 1
    function_cores: int = 1
    veth_queues: int = 1
    descriptors: int | None = None
    program: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    probed: Mapping[tuple[str, str], Version] = field(default_factory=dict)
    burst: int = 32
    memory: Literal["hugepages", "no-huge"] = "hugepages"
    offload: Literal["auto", "off"] = "auto"
    switch_burst: int | None = None
    buffers: int | None = None
    given: Mapping[str, Endpoint] = field(default_factory=dict)
    listen: Literal["auto", "switch", "functions"] = "auto"
    rx_affinity: Literal["auto", "fixed"] = "auto"
    next_macs: Mapping[str, str] = field(default_factory=dict)
    reaches: frozenset[str] = frozenset()

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
