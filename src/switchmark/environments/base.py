"""This module says what an environment must offer: a place for a function, or a switch, to run
in."""

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
    """The node's IP stack must know this peer beforehand: no ARP is sent during a trial."""

    ip: str
    mac: str
    via: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """This endpoint is to be brought into a node, from the node of the switch. `address` (with its
    prefix length) and `neighbours` are for engines that go through the node's IP stack."""

    endpoint: Endpoint
    source: Node
    address: str | None = None
    neighbours: tuple[Neighbour, ...] = ()
    gro: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """This record says what the programs in a node need of it.

    `folders` are those of the run, writable at the same paths in the node; `programs` are the
    folders of programs, readable at the same paths. `capabilities` are Linux capabilities without
    `CAP_`, `devices` device files. `hugepages`: a program keeps its memory there. `mode` is what
    the probe of the environment found. `cpu_limit` is in percent of one core (None: none), `cpus`
    the CPUs that the node may use (empty: all). `image` names the user's own container image or
    disk, `megabytes` is the memory of a virtual machine. `mode` is that of the environment's
    Version, where it was probed.
    """

    folders: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()
    devices: tuple[str, ...] = ()
    hugepages: bool = False
    cpu_limit: float | None = None
    cpus: tuple[int, ...] = ()
    image: str | None = None
    megabytes: int = 256
    mode: str | None = None
    attachments: tuple[Attachment, ...] = field(default=())


class Environment(ABC):
    """An environment is where a function, or the switch, runs. A driver says its name, `probe`,
    `create`, `attach` and `inside`; every method but `probe` is pure."""

    name: str

    port_kinds: frozenset[PortKind] = frozenset(PortKind) - {
        *(PortKind.TAP, PortKind.NETMAP, PortKind.VF_PCI)
    }
    """The kinds of ports that a function can have in a node."""

    without: Mapping[PortKind, str] = MappingProxyType(
        {
            PortKind.NETMAP: "a port of netmap is in the network of the switch, unseen in a "
            "container",
            PortKind.VF_PCI: "no container is given a device past the kernel",
        }
    )
    """Why not those of another kind, where that is not plain."""

    isolated: bool = True
    """A node has a network stack of its own."""

    own_kernel: bool = False
    """A node has a kernel of its own: another clock, CPUs that are not the host's, and ports that
    its maker opens, so that it is created when the switch has started."""

    shares_host: bool = False
    """Processes in a node are the host's but for their network: they see its files, sockets and
    devices, and what limits them is a control group made by switchmark."""

    reaches: frozenset[str] = frozenset()
    """The environments in whose nodes a switch in this one can make interfaces, by their names."""

    images: bool = False
    """A node can be made of an image of the user's."""

    create_s: float = 0.1
    """About how long it takes to make a node and to take it down, in seconds."""

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version, or raise Unavailable with what is missing."""

    @abstractmethod
    def create(self, node: Node, needs: Needs) -> Plan:
        """Return the steps that make the node, and let programs run in it."""

    @abstractmethod
    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        """Return the steps that move kernel interfaces into the node and set them up."""

    @abstractmethod
    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the argv that runs `argv` in the node, keeping stdin, stdout and exit status."""

    def seen_inside(self, end: Endpoint, index: int, ifname: str, *, past_kernel: bool) -> Endpoint:
        """Return the function's end of a port as it is in a node: port `index` there. A node that
        makes an interface of it calls that `ifname`, unless its program opens it `past_kernel`."""
        return end

    def netns(self, node: Node) -> str | None:
        """Return what `ip link set X netns ...` and setns() take for this node; None where it has
        no network namespace of its own on this host."""
        return None

    def takes_switch(self, *, own_stack: bool) -> bool:
        """Say whether the switch under test can run in a node, its ports being made by the host's
        kernel. `own_stack`: it needs a network stack of its own."""
        return not self.own_kernel and (self.isolated or not own_stack)
