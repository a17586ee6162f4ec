"""A path: a test with every name resolved to an object. Its parts and switches have their drivers,
nodes, ports and tasks. This module is pure and looks nothing up by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import Engine
from switchmark.environments.base import Environment
from switchmark.functions.base import Function, Hosted
from switchmark.model.addresses import Addressing
from switchmark.model.cpus import Pin
from switchmark.model.plan import HOST, Node, Plan, Run, on_host
from switchmark.model.test import AXES, Test
from switchmark.model.topology import (
    Endpoint,
    Findings,
    Flow,
    Port,
    PortKind,
    Role,
    Semantics,
    Wiring,
)
from switchmark.model.units import mtu_for
from switchmark.model.version import Version
from switchmark.noises.base import Noise
from switchmark.path.hosts import Uplink, lacking_cables
from switchmark.path.placement import SHARED_PROCESS, CpuUser, Placement
from switchmark.scenarios.base import Scenario
from switchmark.searches.base import Search
from switchmark.switches.base import Counters, Switch

RX_BURST = 64
"""The number of frames that a receiver takes at once. Every port has that many buffers at least."""

_OF_A_PATH = tuple(name for name, axis in AXES.items() if axis.changes != "trial")
"""The axes that need another path for another value. All other axes only affect the traffic
program's orders for a trial, and the background load."""


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers that a test names."""

    switch: Switch
    engine: Engine
    receiver: Engine
    """The engine of parts that only receive or forward."""
    environment: Environment
    """The environment of the functions."""
    switch_environment: Environment
    function: Function
    """The function of a chain."""
    scenario: Scenario
    search: Search
    next_switches: Mapping[str, Switch] = field(default_factory=dict)
    """The versions that events `upgrade` start, by name."""
    noise: Noise | None = None
    """The background load; None for a test without."""
    noise_cpus: str | tuple[int, ...] = ()
    """The CPUs of the background load: a name from CPUS_OF_PARTS, or numbers; empty if the kernel
    chooses."""

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Return the environments of the functions and of the switch, without duplicates."""
        return tuple(dict.fromkeys((self.environment, self.switch_environment)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedFlow(Flow):
    """A flow of the test, from end to end."""

    addressing: Addressing


@dataclass(frozen=True, slots=True)
class Job:
    """A task of the traffic program: one role of a part."""

    role: Role
    queue: int
    """The queue of the part's port. A forwarder uses this queue of both ports."""
    first: int
    """The number of its first flow."""
    flows: int
    """The number of the part's flows in this task."""


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """The switch on one host: the whole switch, or one of two instances in a test between hosts."""

    id: str
    """The id among the parts: `switch`, or `switch@HOST` on the second of two hosts."""
    driver: Switch
    """The driver of the switch."""
    environment: Environment
    """The environment of its node."""
    wiring: Wiring
    """The ports and flows of this instance."""
    alone: bool = True
    """Whether this is the whole switch."""

    @property
    def host(self) -> str:
        return self.wiring.node.host

    @property
    def start(self) -> Plan:
        return self.at_host(self.driver.start(self.wiring))

    @property
    def asks(self) -> tuple[Run, ...]:
        """Return the commands whose outputs decide the addresses."""
        steps = self.at_host(self.driver.asks(self.wiring))
        return tuple(step for step in steps if isinstance(step, Run))

    @property
    def join(self) -> Plan:
        return self.at_host(self.driver.join(self.wiring))

    @property
    def settled(self) -> Plan:
        return self.at_host(self.driver.settled(self.wiring))

    @property
    def settled_again(self) -> Plan:
        return self.at_host(self.driver.settled_again(self.wiring))

    @property
    def uplinks(self) -> list[Port]:
        """Return the ports that lead to the other host."""
        return [port for port in self.wiring.ports if port.uplink]

    @property
    def counters(self) -> tuple[Run, ...]:
        """Return the commands that print the counters of the switch."""
        steps = self.at_host(self.driver.counters.commands(self.wiring))
        return tuple(step for step in steps if isinstance(step, Run))

    def parse(self, outputs: tuple[bytes, ...]) -> Counters:
        """Return the counters in the output of these commands. Raise ValueError if garbled."""
        return self.driver.counters.parse(self.wiring, outputs) if outputs else Counters()

    def at_host(self, steps: Plan) -> Plan:
        """Return the driver's steps, at this instance's host if there are two instances."""
        return steps if self.alone else on_host(steps, self.host)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A program with ports, in a node: the traffic program in some roles, or another function."""

    id: str
    """The id in a record (`f0`, `a0`)."""
    physical: bool
    """Whether the part has the far end of a physical port. Otherwise it is a function."""
    function: Function
    engine: Engine
    """The engine that opens the ports, if the traffic program plays the part."""
    environment: Environment
    node: Node
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...]
    """The part's ends of the ports, in the same order."""
    switch: Instance
    """The switch with the other ends of its ports."""
    sent: tuple[AddressedFlow, ...]
    """The flows that begin at the part."""
    received: tuple[AddressedFlow, ...]
    """The flows that end at the part."""
    roles: tuple[Role, ...]
    """The roles of the traffic program in this part."""
    jobs: tuple[Job, ...]
    rewrites: tuple[Mapping[str, str] | None, ...]
    """The MACs that the part writes into frames, by outgoing port; None for no rewriting."""
    pair: int | None
    """The number of its pair of ends."""
    pin: Pin
    """The CPUs of the part; empty for any CPU."""
    version: Version | None
    """The probed version of its function on its host; None without a probe."""
    clock: str
    """The name of the clock that the part reads: a separate clock, its host's clock, or empty for
    this host's clock."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return the CPUs of the part; empty for any CPU."""
        return self.pin.cpus

    @property
    def separate_kernel(self) -> bool:
        """Return whether the part runs on a separate kernel, in a virtual machine."""
        return self.environment.separate_kernel

    @property
    def ends(self) -> tuple[tuple[Port, Endpoint], ...]:
        """Return the ports with their ends."""
        return tuple(zip(self.ports, self.endpoints, strict=True))

    @property
    def kinds(self) -> frozenset[PortKind]:
        """Return the kinds of the ports."""
        return frozenset(end.kind for end in self.endpoints)

    @property
    def cpu_user(self) -> str:
        """Return the kind of CPU user."""
        if not self.function.played:
            return "function"
        if self.function.forwards:
            return "forwarder"
        return "sender" if self.sent else "receiver"

    @property
    def hosted(self) -> Hosted:
        """Return the arguments for the start of its function in a separate process."""
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
        """Return the arguments for the start of the traffic program."""
        return hosted_at(self.node, self.parts)

    @property
    def endpoints(self) -> list[Endpoint]:
        return [end for part in self.parts for end in part.endpoints]

    @property
    def opened(self) -> list[tuple[Part, Port, int]]:
        """Return the ports that the process opens, once per queue in use."""
        return list(
            dict.fromkeys(
                (part, port, job.queue)
                for part in self.parts
                for job in part.jobs
                for port in part.ports
            )
        )


def hosted_at(node: Node, parts: Sequence[Part]) -> Hosted:
    """Return the arguments for the start of a function that plays these parts in one node."""
    ports = tuple(port for part in parts for port in part.ports)
    rewritten = (macs for part in parts for macs in part.rewrites)
    return Hosted(
        node,
        ports,
        tuple(end for part in parts for end in part.endpoints),
        parts[0].switch.wiring,
        tuple(cpu for part in parts for cpu in part.cpus),
        {port.id: macs["dst_mac"] for port, macs in zip(ports, rewritten, strict=True) if macs},
        parts[0].version,
    )


def awaits_switch(parts: Sequence[Part]) -> bool:
    """Return whether the first port of a process opens only when the switch connects to it."""
    end = parts[0].endpoints[0]
    has_interface = not parts[
        0
    ].separate_kernel  # in a machine, the port is an interface of the guest
    return has_interface and end.kind is PortKind.VHOST_USER and end.server and not end.backend


@dataclass(frozen=True)
class Path:
    """Everything that is decided for a test before it touches a host."""

    test: Test
    drivers: Drivers
    wiring: Wiring
    """The wiring of the whole switch. Between two hosts, no instance has this wiring."""
    switches: tuple[Instance, ...]
    """The switch on every host."""
    uplinks: tuple[Uplink, ...]
    """The cables between the instances on two hosts."""
    parts: tuple[Part, ...]
    processes: tuple[Player, ...]
    """The processes of the traffic program."""
    flows: tuple[AddressedFlow, ...]
    crossings: Mapping[tuple[str, str], Addressing]
    """The addressing by pair of ports, for frames that cross the switch between them."""
    placement: Placement
    """The CPUs of all parts; empty before the placement."""
    cgroups: str
    """The root of the cgroups for CPU limits."""
    found: Findings
    """The results of probes of its hosts."""

    @property
    def switch(self) -> Switch:
        return self.drivers.switch

    @property
    def engine(self) -> Engine:
        """Return the engine of sending parts."""
        return self.drivers.engine

    @property
    def is_away(self) -> bool:
        """Return whether a part of the path is on another host."""
        return any(switch.host != HOST.host for switch in self.switches)

    @property
    def played(self) -> tuple[Part, ...]:
        """Return the parts that the traffic program plays."""
        return tuple(part for part in self.parts if part.function.played)

    @property
    def hosted(self) -> tuple[Part, ...]:
        """Return the other parts, which are separate programs."""
        return tuple(part for part in self.parts if not part.function.played)

    @property
    def in_vms(self) -> tuple[Part, ...]:
        """Return the parts that run in virtual machines."""
        return tuple(part for part in self.parts if part.separate_kernel)

    @property
    def ends(self) -> tuple[tuple[Port, Endpoint], ...]:
        """Return the ports of all parts, with their ends."""
        return tuple(end for part in self.parts for end in part.ends)

    @cached_property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Return the parts' ends of ports, by port id."""
        return {port.id: end for port, end in self.ends}

    @property
    def refusal(self) -> str | None:
        """Return the driver's reason why the switch does not support this path, or None."""
        shared = self.switch.shares_cable(self.wiring.semantics)
        lacking = lacking_cables(self.switch.name, self.wiring, self.uplinks, shared=shared)
        if self.uplinks and lacking:
            return lacking
        refusals = (switch.driver.accepts(switch.wiring) for switch in self.switches)
        return next(filter(None, refusals), None)

    @property
    def streams(self) -> int:
        """Return the number of sending ports. A rate applies per port."""
        return len({flow.source for flow in self.flows})

    def copies(self, flow: Flow) -> tuple[AddressedFlow, ...]:
        """Return the flows that carry the frames of a flow, including the flow."""
        return tuple(other for other in self.flows if other.index == flow.index)

    def first_flow(self, flow: Flow) -> int:
        """Return the first flow number in a flow's frames."""
        return flow.index * self.test.flow_numbers

    @property
    def together(self) -> bool:
        """Return whether senders share a process with their receivers."""
        return self.placement.policy == SHARED_PROCESS

    @property
    def steering(self) -> str | None:
        """Return how frames find their way between functions, in words; None without a chain."""
        if all(not flow.hops for flow in self.flows):
            return None
        if self.wiring.semantics is Semantics.LEARNING:
            return "learning by rewritten MACs"
        if self.wiring.semantics is Semantics.ROUTED:
            return "routed by in-port"
        return f"static by in-port{' and source MAC' * (self.test.chains > 1)}"

    @property
    def dedicated_core(self) -> bool:
        """Return whether forwarding keeps dedicated cores of the switch busy."""
        return self.switch.dedicated_core(self.wiring.version.mode)

    @property
    def is_spread(self) -> bool:
        """Return whether a switch in the kernel must work on the number of CPUs that the test
        sets."""
        return self.test.switch_cores != "auto" and not self.dedicated_core

    @property
    def cpu_users(self) -> list[CpuUser]:
        """Return the switches and parts as users of CPUs. Parts of a pair share a group."""
        switches = [
            CpuUser(
                switch.id,
                "switch",
                self.dedicated_core,
                cores=self.test.switch_core_count,
                spread=self.is_spread,
                nics=tuple(port.nic for port in switch.wiring.ports if port.nic),
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
    """Return the key of a test's path. Tests with the same key can run on one path, one after the
    other.

    The key has all axes except those that only change a trial. It also has the MTU, which a longer
    frame can change, the burst size, because DPDK ports have buffers for a burst, and whether
    devices compute checksums, which is set when ports are opened. Figures therefore never depend on
    the other tests of a run.
    """
    fixed = tuple(getattr(test, axis) for axis in _OF_A_PATH)
    engine = ENGINES.get(test.engine)
    offloads = engine is not None and "offload" in engine.resources and test.offloads
    return (*fixed, mtu_for(test.frame_size), max(test.burst, RX_BURST), offloads)


def shares_path(a: Test, b: Test | None) -> bool:
    """Return whether the path of test `a` suits test `b` too."""
    return b is not None and path_key(a) == path_key(b)
