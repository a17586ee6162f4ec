"""The contract of a switch driver: six required members, and defaults for all others.

Drivers return plans; only `probe` touches the host. They name no environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL
from switchmark.hosts.images import ImageName
from switchmark.hosts.programs import USUAL_FOLDERS, chosen_program, named_program
from switchmark.model.addresses import Addressing, group_mac_address, ip_address, mac_address
from switchmark.model.counters import PortCounters
from switchmark.model.plan import Plan, Run, Spawn
from switchmark.model.topology import Endpoint, Flow, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Image, Version
from switchmark.switches.builds import Build
from switchmark.switches.changes import Change, of_processes

_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a switch at one moment. A counter that the switch does not report is None."""

    ports: Mapping[str, PortCounters] = field(default_factory=dict)
    """The counters of the ports, by id."""
    busy_cycles: int | None = None
    """The cycles with frames to forward."""
    idle_cycles: int | None = None
    """The cycles without frames to forward."""
    slow_path: int | None = None
    """The number of frames that missed the fast path."""

    @property
    def totals(self) -> Mapping[str, int | None]:
        """Return the counters of the whole switch, by the names that a path uses for them."""
        return {
            "busy_cycles": self.busy_cycles,
            "idle_cycles": self.idle_cycles,
            "slow_path": self.slow_path,
        }


@dataclass(frozen=True, slots=True)
class Counting(Generic[_Place]):
    """How to read the counters of a switch or of a network function."""

    commands: Callable[[_Place], tuple[Run, ...]]
    """Returns the commands that print the counters, for the wiring of a switch, or for a function
    with its ports."""
    parse: Callable[[_Place, tuple[bytes, ...]], Counters]
    """Reads the outputs, in the order of the commands; raises ValueError if they are garbled."""


NO_COUNTERS: Counting[Any] = Counting(lambda place: (), lambda place, outputs: Counters())
"""The entry for a switch or function without counters: the contract asks for an explicit answer."""


class Switch(ABC):
    """The base class of switch drivers. A driver defines `name`, `semantics`, `port_kinds`,
    `counters`, `probe` and `start`. Every method except `probe` is pure."""

    name: str
    """The name on the command line."""
    semantics: tuple[Semantics, ...]
    """The ways of forwarding that it supports, the default first."""
    port_kinds: tuple[PortKind, ...]
    """The kinds of ports that it supports, the default first."""
    counters: Counting[Wiring]
    """How to read its counters; `NO_COUNTERS` if it has none."""

    program: str = ""
    """The usual name of the program, or its usual path if it is not on PATH; empty if the kernel is
    the switch. `probe` runs `path`; plans start the program of `Wiring.version`."""

    program_folders: tuple[str, ...] = USUAL_FOLDERS
    """The folders to search for the program, inside a path that the user names: those of an
    installation and of a build tree."""

    program_file: str = ""
    """The executable inside `program`, if `program` is a folder."""

    bound_to: str = ""
    """The program's path if the user asked for a version; set by the table
    (`switches.versions`)."""

    image: ImageName | None = None
    """The container image whose program the user asked for; set by the table
    (`switches.versions`)."""

    companions: tuple[str, ...] = ()
    """The names of the other programs of its installation that plans run."""

    also_called: tuple[str, ...] = ()
    """Other names of the program, which a container image may have on its PATH."""

    build: Build | None = None
    """What a user who builds the program must know; None for a program that distributions
    package."""

    described_by: str = ""
    """The kind of file that describes the switch, in words. The user names the file as
    `NAME:/PATH`. Empty if no file describes it."""

    resources: frozenset[str] = frozenset()
    """The optional axes that the driver supports: axes that are `followed_by` a driver, or that a
    search for settings `tries` (`model.axis`). `memory` applies if frames lie in DPDK memory or
    hugepages; `copies` applies if the switch floods group addresses or takes a rule that lists
    ports."""

    private_stack: bool = False
    """Whether the switch needs its own network stack, because it uses fixed interface names or
    changes forwarding for the whole stack."""

    capabilities: frozenset[str] = frozenset()
    """Linux capabilities, without `CAP_`, that the plan needs in a container in addition to those
    for interfaces and sockets."""

    devices: tuple[str, ...] = ()
    """Device files that the plan needs in a container."""

    routes_by_port: bool = False
    """Whether a router can choose the next hop by ingress port, whatever the destination address.
    Such a router can carry frames from function to function, provided that the functions write
    MACs."""

    function_kinds: frozenset[PortKind] = frozenset()
    """The kinds of ports that the switch can use as a network function (`Port.given`); empty if it
    cannot run as a function."""

    writes_next_macs: bool = False
    """Whether the switch, as a network function, can write its own source MAC and a configured
    destination MAC for each port (`Port.next_mac`)."""

    joins: str = ""
    """The network that exists between hosts (`Host.joined_by`) and that the switch stands for;
    empty for a switch that a run sets up."""

    @property
    def path(self) -> str:
        """Return the path of the program: the requested version, else the program that the user
        named for this switch, else the usual one."""
        if not self.program:
            return ""
        chosen = self.bound_to or chosen_program(self.program, self.name, self.program_folders)
        return chosen or self.program

    @property
    def takes_uplink(self) -> bool:
        """Return whether the switch can reach another host through a cabled NIC."""
        return PortKind.NIC_KERNEL in self.port_kinds

    def shares_cable(self, semantics: Semantics) -> bool:
        """Return whether one cable to another host can carry the frames of all pairs, because the
        switch forwards by MAC."""
        return semantics is Semantics.LEARNING

    def is_alike(self, one: Version, other: Version) -> bool:
        """Return whether the instances on two hosts are the same switch, by their versions."""
        return one.mode == other.mode

    @abstractmethod
    def probe(self, host: Host) -> Version:
        """Return the version of the switch, or raise Unavailable with the reason."""

    @abstractmethod
    def start(self, wiring: Wiring) -> Plan:
        """Return the steps that start the switch, before the functions open their ports."""

    def dedicated_core(self, mode: str | None) -> bool:
        """Return whether forwarding keeps a core busy that belongs to the switch. If not, the
        sender's core does the work. `mode` comes from the probed Version."""
        return False

    def accepts(self, wiring: Wiring) -> str | None:
        """Return the reason why the switch does not support this wiring; None if it does."""
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        """Return the function's end of each port, by port id."""
        return {
            port.id: Endpoint(wiring.kind, mac_address(port.index), mtu=wiring.mtu)
            for port in wiring.ports
        }

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        """Return the addresses of each flow, by flow id. The default is one flat network: frames
        arrive unchanged, and frames to be copied go to a group address."""
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

    def described(self, content: bytes) -> Switch:
        """Return the switch that a file with this content describes (`described_by`). Raise
        ValueError, with the reason, if the content is wrong."""
        return self

    def asks(self, wiring: Wiring) -> tuple[Run, ...]:
        """Return the commands whose outputs decide the addresses, for a switch that chooses the
        addresses of its ports itself. They run once the switch has started. From then on, `wiring`
        has their outputs as `answers`, and `endpoints` and `addressing` raise ValueError if these
        are garbled."""
        return ()

    def join(self, wiring: Wiring) -> Plan:
        """Return the steps that add ports and forwarding rules, once the interfaces are in their
        nodes."""
        return ()

    def settled(self, wiring: Wiring) -> Plan:
        """Return the steps that wait for links and learning, and change nothing."""
        return ()

    def settled_again(self, wiring: Wiring) -> Plan:
        """Return the Waits of `settled` for a switch after an event."""
        return self.settled(wiring)

    def revive(self, wiring: Wiring) -> Plan:
        """Return the steps that start the processes of the switch again, with the configuration
        that they had; empty for a switch without processes. The default is the start from its first
        process on."""
        steps = self.start(wiring)
        spawns = [number for number, step in enumerate(steps) if isinstance(step, Spawn)]
        return (*steps[spawns[0] :], *self.join(wiring)) if spawns else ()

    def leftovers(self, wiring: Wiring) -> tuple[str, ...]:
        """Return the files that a killed process leaves and the next one has to create. The default
        is the sockets on which the switch listens."""
        ends = self.endpoints(wiring).values()
        return tuple(end.path for end in ends if end.path and not end.server)

    def events(self, wiring: Wiring) -> Mapping[str, Change]:
        """Return the events that the switch supports, by kind (`model.event.KINDS`)."""
        return of_processes(self.revive(wiring), self.leftovers(wiring))


def _destination(wiring: Wiring, flow: Flow, sink: Port) -> str:
    copied = len(wiring.copies(flow)) > 1
    return group_mac_address(flow.index) if copied else mac_address(sink.index)


def with_program(
    wiring: Wiring, switch: Switch, probed: Mapping[tuple[str, str], Version]
) -> Wiring:
    """Return the wiring with the switch's program and mode on the wiring's host. `probed` has
    versions by host and name. If the host was not probed, use the program that the host file names
    for that host, else the program of this host."""
    host, version = wiring.node.host, wiring.version
    found = probed.get((host, switch.name))
    if switch.image is not None:
        image = found.image if found and found.image else unprobed_image(switch)
        folder = programs_folder(wiring, image)
        starters = {name: f"{folder}/{name}" for name in image.programs}
        program, *_ = starters.values()
        files = {**(found.beside if found else {}), **starters}
        mode = found.mode if found else version.mode
        version = replace(version, program=program, beside=files, mode=mode, image=image)
    elif found:
        version = replace(version, program=found.program, beside=found.beside, mode=found.mode)
    else:
        named = named_program(host, switch.name) if switch.program and host != LOCAL else None
        version = replace(version, program=named or switch.path, beside={})
    return replace(wiring, version=version)


def programs_folder(wiring: Wiring, image: Image) -> str:
    """Return the folder of the run whose files start the programs of an image."""
    return f"{wiring.run_dir}/image-{image.key}"


def unprobed_image(switch: Switch) -> Image:
    """Return the image that the user asked for, as far as it is known before a probe."""
    assert switch.image is not None
    engine, *_ = switch.image.engines
    return Image(engine, switch.image.name, programs=image_programs(switch, switch.program, {}))


def image_programs(switch: Switch, program: str, beside: Mapping[str, str]) -> Mapping[str, str]:
    """Return the programs of a switch in an image by the names that plans use, the switch first.
    `program` is the path of the switch; a companion with no path in `beside` is on PATH."""
    named = {PurePath(switch.program).name: program}
    return {**named, **{name: beside.get(name, name) for name in switch.companions}}


def wire_refusal(wiring: Wiring, name: str) -> str | None:
    """Return why a switch that connects ports only in pairs does not support a wiring; None if it
    does."""
    reached = [sink for sinks in wiring.ways.values() for sink in sinks]
    for port_id, sinks in wiring.ways.items():
        if len(sinks) != 1 or reached.count(port_id) != 1:
            return (
                f"{name} connects ports in pairs: port {port_id} sends to {len(sinks)} ports "
                f"and receives from {reached.count(port_id)}\n\nhint: --semantics "
                f"{Semantics.LEARNING}"
            )
    return None


def routed_addressing(wiring: Wiring) -> Mapping[str, Addressing]:
    """Return the addresses of each flow, by flow id, for a router with one /24 of 198.18.0.0/16 per
    port: host 1 is the router, host 2 the function."""
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
