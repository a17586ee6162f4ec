"""The contract of a scenario: it draws parts and flows on a topology."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.errors import UsageError
from switchmark.model.addresses import pci_address
from switchmark.model.test import AXES, Test
from switchmark.model.topology import Port, Topology

_USUAL = "forwarder"
_HINT = "--nic a0=SWITCH-NIC:GENERATOR-NIC,b0=SWITCH-NIC:GENERATOR-NIC"


class Scenario(ABC):
    """A scenario defines the parts of a test and the flows through the switch between them. A
    driver defines its name, summary and `draw`."""

    name: str
    summary: str

    @abstractmethod
    def draw(self, topology: Topology, test: Test) -> None:
        """Draw `test.pairs` pairs, in the test's direction. UsageError for axes that the scenario
        does not support."""


@dataclass(frozen=True, slots=True)
class NicPair:
    """The NICs of a real physical port: the switch's NIC, and the NIC at the other end of its
    cable."""

    switch_end: str
    peer: str


def nics(test: Test) -> dict[str, NicPair]:
    """Return the NICs that the axis `nic` gives to physical ports, by part: `a0=eth1:eth2,...`, or
    `a0=03:00.0:04:00.0,...` by PCI address; the domain is added.

    UsageError for any other syntax.
    """
    by_part: dict[str, NicPair] = {}
    for word in (test.nic or "").split(",") if test.nic else []:
        part, equals, ends = word.strip().partition("=")
        pair = _ends(ends)
        if not (part and equals and pair):
            raise UsageError(f"'{word}' is not a physical port", hint=_HINT, axes=("nic",))
        if len({pci_address(end) is None for end in pair}) > 1:
            raise UsageError(
                f"'{word}' names one NIC by its interface and the other by its PCI address: "
                "both ends of a cable must be opened the same way",
                hint="basename $(readlink -f /sys/class/net/INTERFACE/device)",
                axes=("nic",),
            )
        by_part[part] = NicPair(*pair)
    names = [name for nic in by_part.values() for name in (nic.switch_end, nic.peer)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the NIC {name} is named twice", axes=("nic",))
    return by_part


def _ends(text: str) -> tuple[str, str] | None:
    """Return the two NICs of `NIC:NIC`. A PCI address contains colons, an interface name does
    not."""
    if pci_address(text):
        return None
    for split in (index for index, letter in enumerate(text) if letter == ":"):
        pair = [pci_address(end) or end for end in (text[:split], text[split + 1 :])]
        if all(end and (":" not in end or pci_address(end)) for end in pair):
            return pair[0], pair[1]
    return None


def copied(topology: Topology, test: Test, source: Port, sinks: Sequence[Port]) -> None:
    """Draw the flow of a pair to its first sink, and copies of the flow to the other sinks."""
    first, *others = sinks
    flow = topology.flow(source, first)
    if test.direction == "bi":
        topology.flow(first, source)
    for sink in others:
        topology.flow(source, sink, copy_of=flow)


def functions(topology: Topology, test: Test, first: int) -> tuple[Port, ...]:
    """Draw the functions that receive the frames of a pair and their copies: `f` and consecutive
    numbers from `first`."""
    numbers = range(first, first + test.copies)
    return tuple(topology.function(f"f{number}")[0] for number in numbers)


def physical_sinks(topology: Topology, test: Test, pair: int) -> tuple[Port, ...]:
    """Draw the physical ports that receive the frames of a pair and their copies: `b` and a
    number."""
    numbers = range(pair * test.copies, (pair + 1) * test.copies)
    return tuple(physical(topology, test, f"b{number}") for number in numbers)


def forwarders(topology: Topology, test: Test, names: Sequence[str]) -> tuple[Port, ...]:
    """Draw the forwarding functions of a chain, and return their ports in the order of the frames'
    path."""
    function = _USUAL if test.function == AXES["function"].default else test.function
    return tuple(port for name in names for port in topology.function(name, function, ports=2))


def physical(topology: Topology, test: Test, name: str) -> Port:
    """Draw a physical port, with the NICs that the test names for it; emulated otherwise."""
    nic = nics(test).get(name)
    return topology.physical(
        name, nic=nic.switch_end if nic else None, nic_peer=nic.peer if nic else None
    )
