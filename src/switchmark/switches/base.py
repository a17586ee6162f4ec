"""This module says what a switch's driver must offer: six members, and defaults for all else.

A driver is pure but for `probe`: it returns plans. It knows no environment by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL
from switchmark.hosts.programs import USUAL_FOLDERS, chosen_program, named_program
from switchmark.model.addresses import Addressing, group_mac_address, ip_address, mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Endpoint, Flow, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version

_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class Counters:
    """This record holds the counters of a switch at one moment, by port id, and where known its
    busy and idle cycles, and the frames that it could not forward on its fast path."""

    ports: Mapping[str, PortCounters] = field(default_factory=dict)
    busy_cycles: int | None = None
    idle_cycles: int | None = None
    slow_path: int | None = None

    @property
    def totals(self) -> Mapping[str, int | None]:
        """Return what is counted of the whole switch, by the names that a path has for it."""
        return {
            "busy_cycles": self.busy_cycles,
            "idle_cycles": self.idle_cycles,
            "slow_path": self.slow_path,
        }


@dataclass(frozen=True, slots=True)
class Counting(Generic[_Place]):
    """A `Counting` says how the counters of a switch, or of a network function, are read:
    `commands` print what `parse` understands. Both are told the wiring of the switch, or the
    function with its ports.

    `parse` gets the outputs in the order of the commands. ValueError if they are garbled.
    """

    commands: Callable[[_Place], tuple[Run, ...]]
    parse: Callable[[_Place, tuple[bytes, ...]], Counters]


NO_COUNTERS: Counting[Any] = Counting(lambda place: (), lambda place, outputs: Counters())
"""What one that counts nothing says: that it does not is an answer, too."""


class Switch(ABC):
    """A switch forwards frames between its ports; this is what its driver has to say. It says its
    name, semantics, kinds of ports and counters, `probe` and `start`. Every method but `probe` is
    pure.

    Of `semantics` and `port_kinds` the first is what it does unless asked otherwise.
    """

    name: str
    semantics: tuple[Semantics, ...]
    port_kinds: tuple[PortKind, ...]
    counters: Counting[Wiring]

    program: str = ""
    """The usual name of its program, or its usual path where that is not on PATH; empty where the
    kernel is the switch. `probe` asks `path`, plans start that of
    `Wiring.version`."""

    program_folders: tuple[str, ...] = USUAL_FOLDERS
    """Where its program lies in a folder that the user names: of an installation, or of a tree in
    which it was built."""

    program_file: str = ""
    """The file that runs, where `program` is the tree that holds it."""

    bound_to: str = ""
    """The path of its program where a version of it was asked for; the table sets it
    (`switches.versions`)."""

    resources: frozenset[str] = frozenset()
    """The axes that it follows, of those that are `followed_by` a driver, or that a search for its
    settings `tries` (`model.axis`): `memory`, if its frames lie in DPDK's or in hugepages. It
    follows `copies` if it sends to all ports what is for a group, or has a rule that names them."""

    own_stack: bool = False
    """It needs a network stack of its own: it makes interfaces of fixed names, or changes how
    the whole stack forwards."""

    capabilities: frozenset[str] = frozenset()
    """The capabilities of Linux, without `CAP_`, that its plan takes in a container beyond those
    for interfaces and sockets."""

    devices: tuple[str, ...] = ()
    """The device files that its plan takes in a container."""

    routes_by_port: bool = False
    """As a router it can be told where what comes in at a port goes next, wherever it is sent to:
    then it brings frames from function to function, if these write MACs."""

    function_kinds: frozenset[PortKind] = frozenset()
    """The kinds of ports that it can be given as a network function (`Port.given`); none if it
    cannot be one."""

    writes_next_macs: bool = False
    """As a network function it can write its own source MAC, and as destination what it is told for
    each port (`Port.next_mac`)."""

    @property
    def path(self) -> str:
        """Return the path of its program: of the version that was asked for, else what the user
        names by the switch's name, else the usual one."""
        if not self.program:
            return ""
        chosen = self.bound_to or chosen_program(self.program, self.name, self.program_folders)
        return chosen or self.program

    @property
    def takes_uplink(self) -> bool:
        """Say whether an interface of the kernel can be its way to another host."""
        return PortKind.NIC_KERNEL in self.port_kinds

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version of the switch, or raise Unavailable with what is missing."""

    @abstractmethod
    def start(self, wiring: Wiring) -> Plan:
        """Return the steps that start the switch, before the functions open their ports."""

    def own_core(self, mode: str | None) -> bool:
        """Say whether forwarding keeps a core of the switch's own busy. If not, whoever sends does
        the work. `mode` is that of the probed Version."""
        return False

    def accepts(self, wiring: Wiring) -> str | None:
        """Return the reason why this switch cannot make such a wiring, or None if it can."""
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        """Return the function's end of each port, by port id."""
        return {
            port.id: Endpoint(wiring.kind, mac_address(port.index), mtu=wiring.mtu)
            for port in wiring.ports
        }

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        """Return the addresses of each flow, by flow id. By default those of one flat network: what
        is sent is what arrives; what is to be copied is for a group."""
        return {
            flow.id: Addressing(
                sent_src_mac=wiring.source_mac(flow),
                sent_dst_mac=destination,
                seen_src_mac=wiring.source_mac(flow),
                seen_dst_mac=destination,
                source_ip=ip_address(source.index),
                sink_ip=ip_address(sink.index),
            )
            for flow in wiring.flows
            for source, sink in ((wiring.port(flow.source), wiring.port(flow.sink)),)
            for destination in (_destination(wiring, flow, sink),)
        }

    def join(self, wiring: Wiring) -> Plan:
        """Return the steps that add ports and forwarding rules, once the interfaces are in their
        nodes."""
        return ()

    def settled(self, wiring: Wiring) -> Plan:
        """Return the steps that wait for links and learning; they do nothing else."""
        return ()


def _destination(wiring: Wiring, flow: Flow, sink: Port) -> str:
    copied = len(wiring.copies(flow)) > 1
    return group_mac_address(flow.index) if copied else mac_address(sink.index)


def program_at(wiring: Wiring, switch: Switch, probed: Mapping[tuple[str, str], Version]) -> Wiring:
    """Return a wiring with the program of a switch as a probe found it on the wiring's host, by
    `probed`, which has versions by host and name. Where nobody has probed it there, it is what the
    host file names for that host, else the program of this host."""
    host = wiring.at.host
    if found := probed.get((host, switch.name)):
        program, beside = found.program, found.beside
    else:
        named = named_program(host, switch.name) if switch.program and host != LOCAL else None
        program, beside = named or switch.path, {}
    return replace(wiring, version=replace(wiring.version, program=program, beside=beside))


def wire_refusal(wiring: Wiring, name: str) -> str | None:
    """Return why a switch that joins one port to one other cannot make a wiring; None if it can."""
    reached = [sink for sinks in wiring.ways.values() for sink in sinks]
    for port_id, sinks in wiring.ways.items():
        if len(sinks) != 1 or reached.count(port_id) != 1:
            return (
                f"{name} joins one port to one other: port {port_id} sends to {len(sinks)} and is "
                f"sent to by {reached.count(port_id)}\n\nhint: --semantics {Semantics.LEARNING}"
            )
    return None


def routed_addressing(wiring: Wiring) -> Mapping[str, Addressing]:
    """Return the addresses of each flow, by flow id, where the switch is a router with one /24 of
    198.18.0.0/16 on each port: host 1 is the router's, host 2 the function's."""
    return {
        flow.id: Addressing(
            sent_src_mac=mac_address(source.index),
            sent_dst_mac=mac_address(source.index, router=True),
            seen_src_mac=mac_address(sink.index, router=True),
            seen_dst_mac=mac_address(sink.index),
            source_ip=ip_address(2, net=source.index),
            sink_ip=ip_address(2, net=sink.index),
            prefix=24,
            gateway=ip_address(1, net=source.index),
            routed=1,
        )
        for flow in wiring.flows
        for source, sink in ((wiring.port(flow.source), wiring.port(flow.sink)),)
    }
