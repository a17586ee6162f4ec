"""The contract of a scenario: a recipe that draws parts and flows on a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from switchmark.errors import UsageError
from switchmark.model.spec import Test
from switchmark.model.topology import Flow, Port, Topology

__all__ = ["Nic", "Scenario", "copied", "join", "nics", "physical"]


@runtime_checkable
class Scenario(Protocol):
    """A scenario. `draw` raises UsageError for axes that it cannot follow."""

    name: str
    summary: str

    def draw(self, t: Topology, test: Test) -> None:
        """Draw `test.pairs` pairs, in the test's direction."""
        ...


@dataclass(frozen=True, slots=True)
class Nic:
    """A real physical port: the switch's NIC and the one at the other end of its cable."""

    switch_end: str
    peer: str


def nics(test: Test) -> dict[str, Nic]:
    """The NICs that the axis `nic` gives to physical ports, by part: `a0=eth1:eth2,...`.

    UsageError if it is written otherwise.
    """
    found: dict[str, Nic] = {}
    for word in (test.nic or "").split(",") if test.nic else []:
        part, equals, ends = word.strip().partition("=")
        switch_end, colon, peer = ends.partition(":")
        if not (part and equals and switch_end and colon and peer):
            raise UsageError(
                f"'{word}' is not a physical port",
                hint="--nic a0=SWITCH-NIC:GENERATOR-NIC,b0=SWITCH-NIC:GENERATOR-NIC",
            )
        found[part] = Nic(switch_end, peer)
    names = [name for nic in found.values() for name in (nic.switch_end, nic.peer)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the NIC {name} is named twice")
    return found


def join(t: Topology, test: Test, source: Port, sink: Port) -> None:
    """The flow of a pair, and its way back in direction `bi`."""
    t.flow(source, sink)
    if test.direction == "bi":
        t.flow(sink, source)


def copied(t: Topology, test: Test, source: Port, first: int) -> None:
    """The flow of a pair to its function, `f` and this number, and copies of it to those that
    follow."""
    flow: Flow | None = None
    for number in range(first, first + test.copies):
        sink = t.function(f"f{number}")[0]
        if flow is None:
            flow = t.flow(source, sink)
            if test.direction == "bi":
                t.flow(sink, source)
        else:
            t.flow(source, sink, copy_of=flow)


def physical(t: Topology, test: Test, name: str) -> Port:
    """A physical port: the NICs that the test names for it, or emulated."""
    nic = nics(test).get(name)
    return t.physical(name, nic=nic.switch_end if nic else None, nic_peer=nic.peer if nic else None)
