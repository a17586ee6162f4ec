"""The contract of a network function: a program in a node, with ports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from switchmark.hosts.base import Host
from switchmark.model.plan import Node, Plan
from switchmark.model.topology import Endpoint, Port, PortKind, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import Counting


@dataclass(frozen=True, slots=True)
class Hosted:
    """A function and its place in a test."""

    node: Node
    """The node of the function."""
    ports: tuple[Port, ...]
    """The ports of the function."""
    ends: tuple[Endpoint, ...]
    """The endpoints that the function opens, in the order of the ports."""
    wiring: Wiring
    """The wiring of the switch under test."""
    cores: tuple[int, ...] = ()
    """The CPUs of a polling function."""
    next_macs: Mapping[str, str] = field(default_factory=dict)
    """The destination MAC of frames by egress port, if the function writes MACs; else empty."""
    version: Version | None = None
    """The version from a probe of the function on its host; None if it was not probed."""


class Function(ABC):
    """The base class of network functions (VNFs): programs in a node that receive and send frames
    at their ports. A driver defines its name, summary, kinds of ports and counters, `probe` and
    `start`. Every method except `probe` is pure."""

    name: str
    summary: str
    port_kinds: frozenset[PortKind]

    counters: Counting[Hosted]
    """The counters by port. Drops are the frames that the function itself lost."""

    played: bool = False
    """The traffic program plays this function on command, so it has no separate counters."""

    forwards: bool = True
    """The function has two ports, and forwards frames from each port to the other."""

    rewrites: bool = False
    """The function forwards with its own source MAC, and the MAC of the next port as the
    destination."""

    rewrites_if_asked: bool = False
    """The function rewrites MACs if the axis `function_semantics` is `mac` (`Hosted.next_macs`)."""

    polls: bool = False
    """The function keeps a CPU busy."""

    capabilities: frozenset[str] = frozenset()
    """The Linux capabilities, without `CAP_`, that the function needs in a container in addition to
    those of the engine."""

    devices: tuple[str, ...] = ()
    """The device files that the function needs in a container in addition to those of the
    engine."""

    def writes_macs(self, semantics: str) -> bool:
        """Return whether the function writes both MACs, given the value of the axis
        `function_semantics`."""
        return self.rewrites or (semantics == "mac" and self.rewrites_if_asked)

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version, or raise Unavailable with the reason."""

    @abstractmethod
    def start(self, hosted: Hosted) -> Plan:
        """Return the steps that start the program in its node. A function that the traffic program
        plays opens its ports later."""

    def accepts(self, hosted: Hosted) -> str | None:
        """Return the reason why the function does not support such ports; None if it does."""
        return None

    def settled(self, hosted: Hosted) -> Plan:
        """Return the steps that wait until the function forwards, and change nothing."""
        return ()
