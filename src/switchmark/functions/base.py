"""The contract of a network function: a program in a node, with ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from switchmark.machine.host import Host
from switchmark.model.plan import Node, Plan, Run
from switchmark.model.topology import Endpoint, Port, PortKind, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import Counters

__all__ = ["Function", "Hosted"]


@dataclass(frozen=True, slots=True)
class Hosted:
    """A function in its place: its node, its ports with their ends, and the CPUs of one that
    polls. `wiring` is that of the switch under test."""

    node: Node
    ports: tuple[Port, ...]
    ends: tuple[Endpoint, ...]
    wiring: Wiring
    cores: tuple[int, ...] = ()


@runtime_checkable
class Function(Protocol):
    """A function. Every method but `probe` is pure.

    `played`: the traffic program plays it, by commands; it then has no counters of its own.
    `forwards`: it has two ports and sends out at one what came in at the other; `rewrites`: with
    its own source MAC, and the next port's as destination. `polls`: it keeps a CPU busy.
    `capabilities` are those of Linux, without `CAP_`, that it needs in a container beside those
    of the engine.
    """

    name: str
    summary: str
    played: bool
    forwards: bool
    rewrites: bool
    polls: bool
    capabilities: frozenset[str]
    port_kinds: frozenset[PortKind]

    def probe(self, host: Host) -> Version:
        """The version, or Unavailable with what is missing."""
        ...

    def accepts(self, h: Hosted) -> str | None:
        """None, or the reason why it cannot have such ports."""
        ...

    def start(self, h: Hosted) -> Plan:
        """The steps that start the program in its node. One that is played has not opened its
        ports then."""
        ...

    def settled(self, h: Hosted) -> Plan:
        """Waits until it forwards; nothing else."""
        ...

    def counters(self, h: Hosted) -> tuple[Run, ...]:
        """Commands whose outputs `parse_counters` understands."""
        ...

    def parse_counters(self, h: Hosted, outputs: tuple[bytes, ...]) -> Counters:
        """Counters by port. What was dropped is what the function lost, and nobody else counts.
        ValueError if they are garbled."""
        ...
