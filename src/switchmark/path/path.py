"""A path is a test with every name resolved: its parts and switches are objects that hold their
drivers, nodes, ports and tasks. Pure; it looks nothing up by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from switchmark.engines.base import Engine
from switchmark.environments.base import Environment
from switchmark.functions.base import Function, Hosted
from switchmark.model.addresses import Addressing
from switchmark.model.cpus import Pin
from switchmark.model.plan import HOST, Node, Plan, Run, on_host
from switchmark.model.test import AXES, Test
from switchmark.model.topology import (
    Between,
    Endpoint,
    Flow,
    Port,
    PortKind,
    Role,
    Semantics,
    Wiring,
)
from switchmark.model.units import mtu_for
from switchmark.model.version import Version
from switchmark.path.hosts import Uplink, lacking_cables
from switchmark.path.placement import SHARED_PROCESS, CpuUser, Placement
from switchmark.runs.nics import switch_nics
from switchmark.scenarios.base import Scenario
from switchmark.searches.base import Search
from switchmark.switches.base import Counters, Switch

RX_BURST = 64
"""Frames that a receiver takes at once: every port has buffers for so many."""

_OF_A_PATH = tuple(name for name, axis in AXES.items() if axis.changes != "trial")
"""The axes of which another value needs another path; all others are what the traffic program is
told for each trial, and who makes noise beside it."""


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers that a test names."""

    switch: Switch
    engine: Engine
    receiver: Engine
    """The engine of parts that only receive, or forward."""
    environment: Environment
    """Of the functions."""
    switch_environment: Environment
    function: Function
    """Of a chain."""
    scenario: Scenario
    search: Search

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Return the environments of the functions and of the switch, each once."""
        return tuple(dict.fromkeys((self.environment, self.switch_environment)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedFlow(Flow):
    """A flow of the test, from end to end."""

    addressing: Addressing


@dataclass(frozen=True, slots=True)
class Job:
    """One task of the traffic program: a role of a part."""

    role: Role
    queue: int
    """Of the part's port; a forwarder has this one of both."""
    first: int
    """The number of the first of its flows."""
    flows: int
    """How many flows of the part it has."""


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """The switch on one host: all of it, or one of the two that a test between hosts has."""

    id: str
    """As among parts: `switch`, or `switch@HOST` on the second of two hosts."""
    driver: Switch
    environment: Environment
    wiring: Wiring
    alone: bool = True
    """Whether it is the whole switch."""

    @property
    def host(self) -> str:
        return self.wiring.at.host

    @property
    def start(self) -> Plan:
        return self.at_host(self.driver.start(self.wiring))

    @property
    def join(self) -> Plan:
        return self.at_host(self.driver.join(self.wiring))

    @property
    def settled(self) -> Plan:
        return self.at_host(self.driver.settled(self.wiring))

    @property
    def uplinks(self) -> list[Port]:
        """Return its ports that lead to the other host."""
        return [port for port in self.wiring.ports if port.uplink]

    @property
    def counters(self) -> tuple[Run, ...]:
        """Return the commands that print its counters."""
        steps = self.at_host(self.driver.counters.commands(self.wiring))
        return tuple(step for step in steps if isinstance(step, Run))

    def parse(self, outputs: tuple[bytes, ...]) -> Counters:
        """Return the counters, by what these commands print. ValueError if they are garbled."""
        return self.driver.counters.parse(self.wiring, outputs) if outputs else Counters()

    def at_host(self, steps: Plan) -> Plan:
        """Return steps of the driver, those of two instances at the host of this one."""
        return steps if self.alone else on_host(steps, self.host)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A program with ports, in a node: the traffic program in a role, or another function."""

    id: str
    """As in a record (`f0`, `a0`)."""
    physical: bool
    """Whether it has the far end of a physical port; else it is a function."""
    function: Function
    engine: Engine
    """Its ports are opened with it, where the traffic program plays the part."""
    environment: Environment
    node: Node
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...]
    """Its ends of the ports, in their order."""
    switch: Instance
    """Where its ports are."""
    sent: tuple[AddressedFlow, ...]
    """The flows that begin here."""
    received: tuple[AddressedFlow, ...]
    """The flows that end here."""
    roles: tuple[Role, ...]
    """Of the traffic program that plays it."""
    jobs: tuple[Job, ...]
    rewrites: tuple[Mapping[str, str] | None, ...]
    """The MACs that it writes into what leaves by each port; None where it writes none."""
    pair: int | None
    """The number of the pair of ends that it is one of."""
    pin: Pin
    """The CPUs that it is given; none: any."""
    version: Version | None
    """What a probe of its function found on its host; None where nobody has probed it."""
    clock: str
    """The name of the clock that it reads: its own, its host's, or none where that is this
    host's."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs that it is given; none: any."""
        return self.pin.cpus

    @property
    def own_kernel(self) -> bool:
        """Say whether it runs on another kernel than its host's: in a virtual machine."""
        return self.environment.own_kernel

    @property
    def ends(self) -> tuple[tuple[Port, Endpoint], ...]:
        """Return its ports, each with its end."""
        return tuple(zip(self.ports, self.endpoints, strict=True))

    @property
    def kinds(self) -> frozenset[PortKind]:
        """Return the kinds of its ports."""
        return frozenset(end.kind for end in self.endpoints)

    @property
    def cpu_user(self) -> str:
        """Return which kind of user of CPUs it is."""
        if not self.function.played:
            return "function"
        if self.function.forwards:
            return "forwarder"
        return "sender" if self.sent else "receiver"

    @property
    def hosted(self) -> Hosted:
        """Return what its function is started with, in a process of its own."""
        return hosted_at(self.node, (self,))


@dataclass(frozen=True, slots=True, eq=False)
class Player:
    """A process of the traffic program, with the parts that it plays."""

    node: Node
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        return "+".join(part.id for part in self.parts)

    @property
    def hosted(self) -> Hosted:
        """Return what the traffic program is started with."""
        return hosted_at(self.node, self.parts)

    @property
    def endpoints(self) -> list[Endpoint]:
        return [end for part in self.parts for end in part.endpoints]

    @property
    def opened(self) -> list[tuple[Part, Port, int]]:
        """Return the ports that it opens: each once for each queue that it uses."""
        return list(
            dict.fromkeys(
                (part, port, job.queue)
                for part in self.parts
                for job in part.jobs
                for port in part.ports
            )
        )


def hosted_at(node: Node, parts: Sequence[Part]) -> Hosted:
    """Return what a function that plays these parts in one node is started with."""
    ports = tuple(port for part in parts for port in part.ports)
    written = (macs for part in parts for macs in part.rewrites)
    return Hosted(
        node,
        ports,
        tuple(end for part in parts for end in part.endpoints),
        parts[0].switch.wiring,
        tuple(cpu for part in parts for cpu in part.cpus),
        {port.id: macs["dst_mac"] for port, macs in zip(ports, written, strict=True) if macs},
        parts[0].version,
    )


def awaits_switch(parts: Sequence[Part]) -> bool:
    """Say whether the first port of a process is opened only when the switch connects to it."""
    end = parts[0].endpoints[0]
    ours = not parts[0].own_kernel  # in a machine it is an interface of the guest's
    return ours and end.kind is PortKind.VHOST_USER and end.server and not end.backend


@dataclass(frozen=True)
class Path:
    """All that is decided for a test before a host is touched."""

    test: Test
    drivers: Drivers
    wiring: Wiring
    """That of the whole switch: between two hosts no instance has it."""
    switches: tuple[Instance, ...]
    """One on each host."""
    uplinks: tuple[Uplink, ...]
    """What joins the instances of two hosts."""
    parts: tuple[Part, ...]
    processes: tuple[Player, ...]
    """Those of the traffic program."""
    flows: tuple[AddressedFlow, ...]
    crossings: Mapping[tuple[str, str], Addressing]
    """Of each pair of ports between which frames cross the switch."""
    placement: Placement
    """The CPUs of all parts; of none before they are placed."""
    cgroups: str
    """The root of those that limit CPUs."""
    modes: Mapping[str, str | None]
    """What the probes of environments found."""
    between: Between
    """What two hosts have between them."""

    @property
    def switch(self) -> Switch:
        return self.drivers.switch

    @property
    def engine(self) -> Engine:
        """Return the engine of parts that send."""
        return self.drivers.engine

    @property
    def is_away(self) -> bool:
        """Say whether a part of it is on another host than this one."""
        return any(switch.host != HOST.host for switch in self.switches)

    @property
    def played(self) -> tuple[Part, ...]:
        """Return the parts that the traffic program plays."""
        return tuple(part for part in self.parts if part.function.played)

    @property
    def hosted(self) -> tuple[Part, ...]:
        """Return the other parts: programs of their own."""
        return tuple(part for part in self.parts if not part.function.played)

    @property
    def in_vms(self) -> tuple[Part, ...]:
        """Return the parts that run in virtual machines."""
        return tuple(part for part in self.parts if part.own_kernel)

    @property
    def ends(self) -> tuple[tuple[Port, Endpoint], ...]:
        """Return all ports of parts, each with its end."""
        return tuple(end for part in self.parts for end in part.ends)

    @cached_property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Return the parts' ends of ports, by the ids of these."""
        return {port.id: end for port, end in self.ends}

    @property
    def refusal(self) -> str | None:
        """Return why the switch cannot make such a path, as its driver says it; None if it can."""
        lacking = lacking_cables(self.switch.name, self.wiring, self.uplinks)
        if self.uplinks and lacking:
            return lacking
        refusals = (each.driver.accepts(each.wiring) for each in self.switches)
        return next(filter(None, refusals), None)

    @property
    def streams(self) -> int:
        """Return how many ports frames are sent from: a rate is that of each."""
        return len({flow.source for flow in self.flows})

    def copies(self, flow: Flow) -> tuple[AddressedFlow, ...]:
        """Return the flows that carry the frames of this one, itself among them."""
        return tuple(each for each in self.flows if each.index == flow.index)

    def first_flow(self, flow: Flow) -> int:
        """Return the first number of a flow's frames."""
        return flow.index * self.test.flow_numbers

    @property
    def together(self) -> bool:
        """Say whether each sender is in one process with its receiver."""
        return self.placement.policy == SHARED_PROCESS

    @property
    def steering(self) -> str | None:
        """Return how frames find their way from function to function; None where there is no
        chain."""
        if all(not flow.hops for flow in self.flows):
            return None
        if self.wiring.semantics is Semantics.LEARNING:
            return "learning by rewritten MACs"
        if self.wiring.semantics is Semantics.ROUTED:
            return "routed by in-port"
        return f"static by in-port{' and source MAC' * (self.test.chains > 1)}"

    @property
    def own_core(self) -> bool:
        """Say whether forwarding keeps cores of the switch's own busy."""
        return self.switch.own_core(self.wiring.version.mode)

    @property
    def is_spread(self) -> bool:
        """Say whether a switch in the kernel is to work on CPUs that the test asks for."""
        return self.test.switch_cores != "auto" and not self.own_core

    @property
    def cpu_users(self) -> list[CpuUser]:
        """Return the switches and parts as the placement knows them; parts of a pair share a
        group."""
        switches = [
            CpuUser(
                switch.id,
                "switch",
                self.own_core,
                cores=self.test.switch_core_count,
                spread=self.is_spread,
                nics=switch_nics(switch.wiring.ports),
            )
            for switch in self.switches
        ]
        parts = [
            CpuUser(
                part.id,
                part.cpu_user,
                polls=part.function.polls,
                group=part.pair,
                cores=self.test.function_cores if part.function.played else 1,
                function=not part.physical,
                nics=tuple(port.nic_peer for port in part.ports if port.nic_peer),
            )
            for part in self.parts
        ]
        return [*switches, *parts]

    def placed(self, placement: Placement) -> Path:
        """Return the path with its parts on other CPUs."""
        parts = {part: replace(part, pin=placement.pin(part.id)) for part in self.parts}
        processes = (
            replace(player, parts=tuple(parts[part] for part in player.parts))
            for player in self.processes
        )
        return replace(
            self, placement=placement, parts=tuple(parts.values()), processes=tuple(processes)
        )


def path_key(test: Test) -> Hashable:
    """Return what a path depends on: tests of one key can be measured on one, one after the other.

    Every axis but those that only a trial needs. Interfaces have the MTU of a longer frame, and
    DPDK's ports the buffers for a longer burst: no figure depends on which other tests there are.
    """
    fixed = tuple(getattr(test, axis) for axis in _OF_A_PATH)
    return (*fixed, mtu_for(test.frame_size), max(test.burst, RX_BURST))


def shares_path(a: Test, b: Test | None) -> bool:
    """Say whether what is up for `a` serves `b` too."""
    return b is not None and path_key(a) == path_key(b)
