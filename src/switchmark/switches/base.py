"""The contract of a switch. A driver is pure but for `probe`: it returns plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from switchmark.machine.host import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Addressing, Endpoint, PortKind, Semantics, Wiring
from switchmark.model.version import Version

__all__ = ["Counters", "PortCounters", "Switch"]


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Frames at one port as the switch sees it; None where the switch does not tell."""

    rx: int | None = None
    tx: int | None = None
    rx_dropped: int | None = None
    tx_dropped: int | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a switch at one moment, by port id; busy and idle cycles where known."""

    ports: Mapping[str, PortCounters] = field(default_factory=dict)
    busy_cycles: int | None = None
    idle_cycles: int | None = None


@runtime_checkable
class Switch(Protocol):
    """A switch. Every method but `probe` is pure.

    Of `semantics` and `port_kinds` the first is what it does unless asked otherwise.
    `resources` are the axes, of `switch_cores`, `queues`, `descriptors` and `copies`, that it
    follows: it copies a flow to several ports if it sends to all what is for a group, or has a
    rule that names them.
    """

    name: str
    environments: frozenset[str]
    resources: frozenset[str]

    @property
    def semantics(self) -> tuple[Semantics, ...]: ...

    @property
    def port_kinds(self) -> tuple[PortKind, ...]: ...

    def probe(self, host: Host) -> Version:
        """The version, or Unavailable with what is missing."""
        ...

    def own_core(self, mode: str | None) -> bool:
        """Does forwarding keep a core of the switch's own busy? If not, whoever sends does
        the work. `mode` is that of the probed Version."""
        ...

    def accepts(self, w: Wiring) -> str | None:
        """None, or the reason why this switch cannot make such a wiring."""
        ...

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        """The far end of each port, by port id."""
        ...

    def addressing(self, w: Wiring) -> Mapping[str, Addressing]:
        """The addresses of each flow, by flow id."""
        ...

    def start(self, w: Wiring) -> Plan:
        """Before the functions open their ports."""
        ...

    def join(self, w: Wiring) -> Plan:
        """After the interfaces are in the nodes: ports, forwarding rules."""
        ...

    def settled(self, w: Wiring) -> Plan:
        """Waits for links and learning; nothing else."""
        ...

    def counters(self, w: Wiring) -> tuple[Run, ...]:
        """Commands whose outputs `parse_counters` understands."""
        ...

    def parse_counters(self, w: Wiring, outputs: tuple[bytes, ...]) -> Counters:
        """Counters from the outputs of `counters`, in order. ValueError if they are garbled."""
        ...
