"""The contract of an environment: a place in which functions, or the switch, run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from switchmark.hosts.base import Host
from switchmark.model.plan import Node, Plan
from switchmark.model.topology import Endpoint, PortKind
from switchmark.model.version import Version


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A peer that the node's IP stack must know in advance, so that no ARP occurs during a
    trial."""

    ip: str
    """The IP address of the peer."""
    mac: str
    """Its MAC."""
    via: str | None = None
    """The router to it; None if it is on the link."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An endpoint to be moved into a node from the switch's node."""

    endpoint: Endpoint
    """The endpoint."""
    source: Node
    """The node that has it before."""
    address: str | None = None
    """Its address with the prefix length, for engines that use the node's IP stack."""
    neighbours: tuple[Neighbour, ...] = ()
    """The peers that this IP stack must know."""
    gro: bool = False
    """Whether the interface needs GRO, with which a veth polls (NAPI)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of the programs in a node."""

    folders: tuple[str, ...] = ()
    """Folders of the run, writable at the same paths in the node."""
    programs: tuple[str, ...] = ()
    """Folders of programs, readable at the same paths in the node."""
    capabilities: frozenset[str] = frozenset()
    """Linux capabilities, without `CAP_`."""
    devices: tuple[str, ...] = ()
    """Device files."""
    hugepages: bool = False
    """Whether a program keeps its memory in hugepages."""
    cpu_limit: float | None = None
    """The limit of CPU time, in percent of one core; None for no limit."""
    cpus: tuple[int, ...] = ()
    """The CPUs of the node; empty for all."""
    image: str | None = None
    """The user's container image or disk; None for a generated one."""
    megabytes: int = 256
    """The memory of a virtual machine."""
    mode: str | None = None
    """The mode of the environment's Version, if it was probed."""
    attachments: tuple[Attachment, ...] = field(default=())
    """The endpoints that will be moved into the node."""


class Environment(ABC):
    """The base class of environments, in which functions or the switch run. A driver defines
    `name`, `probe`, `create`, `attach` and `inside`; every method except `probe` is pure."""

    name: str

    port_kinds: frozenset[PortKind] = frozenset(PortKind) - {
        *(PortKind.TAP, PortKind.NETMAP, PortKind.VF_PCI)
    }
    """The kinds of ports that a function in a node can have."""

    without: Mapping[PortKind, str] = MappingProxyType(
        {
            PortKind.NETMAP: "a netmap port is in the switch's network namespace, where a "
            "container cannot open it",
            PortKind.VF_PCI: "containers get no PCI devices for kernel bypass",
        }
    )
    """The reasons for missing kinds of ports that need an explanation."""

    isolated: bool = True
    """Nodes have their own network stacks."""

    separate_kernel: bool = False
    """Nodes have separate kernels: another clock, and CPUs that are not the host's. The virtual
    machine opens the ports, so it starts after the switch."""

    shares_host: bool = False
    """Processes in a node share everything with the host except the network: files, sockets and
    devices. switchmark limits them with a control group."""

    reaches: frozenset[str] = frozenset()
    """The names of the environments in whose nodes a switch in this environment can create
    interfaces."""

    images: bool = False
    """Nodes can use an image of the user."""

    create_s: float = 0.1
    """The approximate time to create and remove a node, in seconds."""

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version, or raise Unavailable with the reason."""

    @abstractmethod
    def create(self, node: Node, needs: Needs) -> Plan:
        """Return the steps that create the node and let programs run in it."""

    @abstractmethod
    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        """Return the steps that move kernel interfaces into the node and set them up."""

    @abstractmethod
    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the argv that runs `argv` in the node, keeping stdin, stdout and exit status."""

    def seen_inside(self, end: Endpoint, index: int, ifname: str, *, past_kernel: bool) -> Endpoint:
        """Return the function's end of port `index` as seen in a node. If the node creates an
        interface for it, the interface is called `ifname`, unless the program opens the port
        `past_kernel`."""
        return end

    def netns(self, node: Node) -> str | None:
        """Return the argument of `ip link set X netns ...` and setns() for this node; None if it
        has no separate network namespace on this host."""
        return None

    def takes_switch(self, *, private_stack: bool) -> bool:
        """Return whether the switch under test can run in a node; the host's kernel creates its
        ports. `private_stack`: the switch needs its own network stack."""
        return not self.separate_kernel and (self.isolated or not private_stack)
