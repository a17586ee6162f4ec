"""The contract of an environment: where a function, or a switch, runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from switchmark.machine.host import Host
from switchmark.model.plan import Node, Plan
from switchmark.model.topology import Endpoint, PortKind
from switchmark.model.version import Version

__all__ = ["Attachment", "Environment", "Needs", "Neighbour", "guest_address"]

_FIRST_SLOT = 0x10  # of those that a machine's other devices do not get


def guest_address(index: int) -> str:
    """The PCI address that NIC number `index` (from 0, at most 14) of a machine has in it, where a
    program of user space opens it."""
    return f"0000:00:{_FIRST_SLOT + index:02x}.0"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A peer that the node's IP stack must know: no ARP is sent during a trial."""

    ip: str
    mac: str
    via: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """An endpoint to bring into a node, from the node of the switch. `address` (with its
    prefix length) and `neighbours` are for engines that go through the node's IP stack."""

    endpoint: Endpoint
    source: Node
    address: str | None = None
    neighbours: tuple[Neighbour, ...] = ()
    gro: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """What the programs in a node need of it.

    `run_dir` is the run's folder, writable at the same path in every node; `programs` are the
    folders of programs, readable at the same paths. `capabilities` are Linux capabilities
    without `CAP_`, `devices` device files. `hugepages`: a program keeps its memory there.
    `mode` is what the probe of the environment found.
    `cpu_limit` is in percent of one core (None: none), `cpus` the CPUs that the node may use
    (empty: all). `image` names the user's own container image or disk, `megabytes` is the
    memory of a virtual machine. `mode` is that of the environment's Version, where it was
    probed.
    """

    run_dir: str
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


@runtime_checkable
class Environment(Protocol):
    """An environment. `isolated` says that a node has a network stack of its own, `own_kernel`
    that it has a kernel of its own: another clock, CPUs that are not the host's, and ports that
    its maker opens, so that it is created when the switch has started; `images`, that a node can
    be made of an image of the user's."""

    name: str
    port_kinds: frozenset[PortKind]
    isolated: bool
    own_kernel: bool
    images: bool

    def probe(self, host: Host) -> Version:
        """The version, or Unavailable with what is missing."""
        ...

    def create(self, node: Node, needs: Needs) -> Plan:
        """Make the node, and let programs run in it."""
        ...

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        """Move kernel interfaces in and set them up."""
        ...

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The argv that runs `argv` in the node, keeping stdin, stdout and exit status."""
        ...

    def netns(self, node: Node) -> str | None:
        """What `ip link set X netns ...` and setns() take for this node; None for the host."""
        ...
