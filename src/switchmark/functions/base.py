"""The contract of a network function: a program in a node, with ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from switchmark.model.plan import Node, Plan
from switchmark.model.topology import Endpoint

__all__ = ["Function"]


@runtime_checkable
class Function(Protocol):
    """A function. `start` leaves the program running, its ports not yet open."""

    name: str
    summary: str

    def start(self, node: Node, ports: Sequence[Endpoint]) -> Plan:
        """The steps that start the program in its node."""
        ...
