"""This module says what a network function must offer: a program in a node, with ports."""

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
    """A function with where it runs."""

    node: Node
    """Its node."""
    ports: tuple[Port, ...]
    """Its ports."""
    ends: tuple[Endpoint, ...]
    """What it opens at each port."""
    wiring: Wiring
    """The wiring of the switch under test."""
    cores: tuple[int, ...] = ()
    """The CPUs of a function that polls."""
    next_macs: Mapping[str, str] = field(default_factory=dict)
    """The destination of frames that leave by a port, where the function writes MACs; else
    empty."""
    version: Version | None = None
    """What a probe of the function found on its host; None where nobody has probed it."""


class Function(ABC):
    """A network function (VNF) is a program in a node that takes frames from its ports and sends
    frames to them. A driver says its name, a summary, its kinds of ports and counters, `probe` and
    `start`. Every method but `probe` is pure."""

    name: str
    summary: str
    port_kinds: frozenset[PortKind]

    counters: Counting[Hosted]
    """By port. What was dropped is what the function lost, and nobody else counts."""

    played: bool = False
    """The traffic program plays it, by commands; it then has no counters of its own."""

    forwards: bool = True
    """It has two ports and sends out at one what came in at the other."""

    rewrites: bool = False
    """It forwards with its own source MAC, and the next port's as destination."""

    rewrites_if_asked: bool = False
    """It does so where the axis `function_semantics` is `mac` (`Hosted.next_macs`)."""

    polls: bool = False
    """It keeps a CPU busy."""

    capabilities: frozenset[str] = frozenset()
    """Those of Linux, without `CAP_`, that it needs in a container beside those of the engine."""

    devices: tuple[str, ...] = ()
    """The device files that it needs in a container beside those of the engine."""

    def writes_macs(self, semantics: str) -> bool:
        """Say whether it writes both MACs, by the value of the axis `function_semantics`."""
        return self.rewrites or (semantics == "mac" and self.rewrites_if_asked)

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version, or raise Unavailable with what is missing."""

    @abstractmethod
    def start(self, hosted: Hosted) -> Plan:
        """Return the steps that start the program in its node. One that the traffic program plays
        has not opened its ports then."""

    def accepts(self, hosted: Hosted) -> str | None:
        """Return the reason why it cannot have such ports, or None if it can."""
        return None

    def settled(self, hosted: Hosted) -> Plan:
        """Return the steps that wait until it forwards; they do nothing else."""
        return ()
