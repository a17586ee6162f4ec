"""This module lays a test out: its topology, wiring, nodes, addresses. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import KERNEL_PORTS, Engine
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.base import Function
from switchmark.model.addresses import Addressing
from switchmark.model.plan import Node
from switchmark.model.test import Test
from switchmark.model.topology import (
    NOTHING,
    Between,
    Endpoint,
    Flow,
    Functions,
    Memory,
    Part,
    PortKind,
    Semantics,
    Topology,
    Tuning,
    Wiring,
)
from switchmark.model.units import IMIX_SIZES, mtu_for
from switchmark.model.version import Version
from switchmark.path.placement import SHARED_PROCESS
from switchmark.path.sides import home_of, hosts_of, sides_of
from switchmark.runs.cgroups import V2
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.across import Across, far_switch, side_name, wirings_of
from switchmark.switches.base import Switch, program_at

UDP_PORT = 20000
_STEERS_BY_PORT = frozenset({Semantics.PATCH, Semantics.STATIC})


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout is all that is decided for a test before a host is touched.

    `nodes` has a node for each part, `endpoints` one for each port, `addressing` one for each flow
    from end to end, `crossings` one for each pair of ports between which frames cross the switch.
    `receivers` is the engine of parts that only receive, or forward. `policy` is the placement that
    is followed, `modes` are what the probes of environments found, `cpus` the CPUs of each part
    (none: any), `probed` what probes found, by host and name of switch or function.
    """

    test: Test
    switch: Switch
    engine: Engine
    receivers: Engine
    wiring: Wiring
    parts: tuple[Part, ...]
    nodes: Mapping[str, Node]
    endpoints: Mapping[str, Endpoint]
    flows: tuple[Flow, ...]
    addressing: Mapping[str, Addressing]
    crossings: Mapping[tuple[str, str], Addressing]
    policy: str
    cgroups: str = V2
    modes: Mapping[str, str | None] = field(default_factory=dict)
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    between: Between = NOTHING
    probed: Mapping[tuple[str, str], Version] = field(default_factory=dict)

    @property
    def wirings(self) -> tuple[Wiring, ...]:
        """Return the wiring of each instance of the switch: one for each host."""
        return wirings_of(self.switch, self.wiring)

    def wiring_of(self, part: Part) -> Wiring:
        """Return the wiring of the switch that a part's ports are at."""
        host = self.nodes[part.id].host
        return next(each for each in self.wirings if each.at.host == host)

    def sent_by(self, part: Part) -> tuple[Flow, ...]:
        """Return the flows that begin at a part."""
        return tuple(f for f in self.flows if f.source in {p.id for p in part.ports})

    def received_by(self, part: Part) -> tuple[Flow, ...]:
        """Return the flows that end at a part."""
        return tuple(f for f in self.flows if f.sink in {p.id for p in part.ports})

    @property
    def streams(self) -> int:
        """Return how many ports frames are sent from: a rate is that of each."""
        return len({flow.source for flow in self.flows})

    def copies(self, flow: Flow) -> tuple[Flow, ...]:
        """Return the flows that carry the frames of this one, itself among them."""
        return tuple(each for each in self.flows if each.index == flow.index)

    def first_flow(self, flow: Flow) -> int:
        """Return the first number of a flow's frames."""
        return flow.index * self.test.flow_numbers

    @property
    def together(self) -> bool:
        """Say whether each sender is in one process with its receiver."""
        return self.policy == SHARED_PROCESS


def frame_sizes(test: Test) -> Sequence[int]:
    """Return the frame sizes that a sender cycles through, bytes with the FCS."""
    return IMIX_SIZES if isinstance(test.frame_size, str) else (test.frame_size,)


def opened_in(environment: str, kinds: Collection[PortKind]) -> frozenset[PortKind]:
    """Return the kinds of ports that an engine or a function, which takes `kinds`, can open in an
    environment. In a virtual machine each of its ports is an interface of the guest's kernel, or a
    NIC past it."""
    where = ENVIRONMENTS[environment]
    if not where.own_kernel:
        return frozenset(kinds)
    return where.port_kinds if {PortKind.TAP, PortKind.NIC_PCI} & set(kinds) else frozenset()


def lay_out(
    test: Test,
    *,
    prefix: str,
    run_dir: str,
    policy: str | None = None,
    mode: str | None = None,
    cores: tuple[int, ...] = (),
    node: int = 0,
    memory: Literal["hugepages", "no-huge"] = "hugepages",
    cgroups: str = V2,
    modes: Mapping[str, str | None] = MappingProxyType({}),
    cpus: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    between: Between = NOTHING,
    probed: Mapping[tuple[str, str], Version] = MappingProxyType({}),
) -> Layout:
    """Draw the test's scenario and give every part a node, every port its ends.

    All names of the test must be known (`layout.resolve`). UsageError for what the scenario cannot
    draw. `policy` is the placement that is followed, `between` what two hosts have between them,
    `probed` what probes found of the switch and the functions, by host and name.
    """
    topology = Topology()
    SCENARIOS[test.scenario].draw(topology, test)
    chained = [FUNCTIONS[p.function] for p in topology.parts if FUNCTIONS[p.function].forwards]
    switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
    hosts = hosts_of(test)
    two = len(hosts) == 2
    sides = sides_of(topology) if two else {}

    def node_on(side: int | None, suffix: str, environment: str, image: str | None = None) -> Node:
        """Return a node of this run; in the environment `host` it is a name only."""
        name, home, folder = f"{prefix}-{suffix}", home_of(test), run_dir
        if side is not None:
            letter, home = side_name(side), hosts[side]
            name, folder = f"{prefix}-{letter}-{suffix}", f"{run_dir}/{letter}"
        where = ENVIRONMENTS[environment]
        return Node(name, environment, home, folder, image, where.isolated, where.reaches)

    nodes = {
        part.id: node_on(sides.get(part.id), part.id, "netns")
        if part.physical
        else node_on(sides.get(part.id), part.id, test.environment, test.image)
        for part in topology.parts
    }
    topology.place(nodes)
    if two:
        far = node_on(1, "sw", test.switch_environment)
        theirs = cpus.get(far_switch(hosts[1]), ())
        switch = Across(switch, far, named=between.cables, far_cores=theirs, probed=probed)
    wiring = Wiring(
        prefix=prefix,
        run_dir=run_dir,
        at=node_on(0 if two else None, "sw", test.switch_environment),
        ports=topology.ports,
        flows=topology.crossings,
        kind=_kind(test, chained),
        semantics=_semantics(test, chained),
        version=Version("", mode=mode),
        mtu=mtu_for(test.frame_size),
        cores=cores,
        queues=max(
            test.queues, engine.device_queues(test.function_cores) if engine.own_memory else 1
        ),
        descriptors=test.descriptors,
        memory=Memory(memory if test.memory == "auto" else test.memory, node),
        tuning=Tuning(test.switch_burst, test.buffers, test.rx_affinity == "fixed"),
        functions=Functions(
            napi=engine.napi,
            ip_stack=engine.needs_ip,
            listen=test.listen == "functions",
            queues=1 if engine.own_memory else engine.device_queues(test.function_cores),
            cores=test.function_cores,
            burst=test.burst,
            offload=test.offload,
        ),
    )
    wiring = program_at(wiring, switch, probed)
    by_crossing = switch.addressing(wiring)
    crossings = {(flow.source, flow.sink): by_crossing[flow.id] for flow in wiring.flows}
    return Layout(
        test=test,
        switch=switch,
        engine=engine,
        receivers=ENGINES[engine.receiver] if engine.receiver else engine,
        wiring=wiring,
        parts=tuple(topology.parts),
        nodes=nodes,
        endpoints=_endpoints(switch, wiring, topology.parts, engine),
        flows=tuple(topology.flows),
        addressing={
            flow.id: _end_to_end(
                [crossings[crossing] for crossing in flow.crossings],
                rewritten=any(f.writes_macs(test.function_semantics) for f in chained),
            )
            for flow in topology.flows
        },
        crossings=crossings,
        policy=policy or test.placement,
        cgroups=cgroups,
        modes=modes,
        cpus=cpus,
        between=between,
        probed=probed,
    )


def _endpoints(
    switch: Switch, wiring: Wiring, parts: Sequence[Part], engine: Engine
) -> Mapping[str, Endpoint]:
    """Return the function's end of each port: the switch's, as the part's node shows it."""
    ends = dict(switch.endpoints(wiring))
    for part in parts:
        environment = ENVIRONMENTS[part.ports[0].node.environment]
        function = FUNCTIONS[part.function]
        past_kernel = (
            engine.own_memory if function.played else PortKind.NIC_PCI in function.port_kinds
        )
        for index, port in enumerate(part.ports):
            ends[port.id] = environment.seen_inside(
                ends[port.id], index, wiring.name(f"e{port.index}"), past_kernel=past_kernel
            )
    return ends


def _end_to_end(crossed: Sequence[Addressing], *, rewritten: bool) -> Addressing:
    """Return the addresses of a flow, from those of its crossings. Where nobody writes MACs its
    frames are for the sink from the start; `rewritten`: functions do."""
    first, last = crossed[0], crossed[-1]
    if first.rewritten or rewritten:
        first = replace(first, seen_src_mac=last.seen_src_mac)
    else:
        first = replace(first, sent_dst_mac=last.seen_dst_mac)
    routed = sum(crossing.routed for crossing in crossed)
    return replace(first, seen_dst_mac=last.seen_dst_mac, sink_ip=last.sink_ip, routed=routed)


def _kind(test: Test, chained: Sequence[Function]) -> PortKind:
    """Return the kind of ports that the test names, else the first of the switch's that engine,
    environment and functions take too, those of user space before the kernel's where the engine is
    of user space; the switch's first where there is none, which `layout.resolve` refuses."""
    switch = SWITCHES[test.switch]
    if test.port != "auto":
        if test.port not in switch.port_kinds:
            raise UsageError(
                f"switch {switch.name} has no ports of kind {test.port}",
                hint=f"--port {','.join(switch.port_kinds)}",
                axes=("port", "switch"),
            )
        if test.port == PortKind.NIC_PCI:
            raise UsageError(
                f"a port of kind {test.port} is a NIC that you name",
                hint="--nic a0=03:00.0:04:00.0, the switch's NIC and the one at the cable's end",
                axes=("port", "nic"),
            )
        return PortKind(test.port)
    inner = [ENGINES[test.engine].port_kinds, *(function.port_kinds for function in chained)]
    taken = ENVIRONMENTS[test.environment].port_kinds
    for kinds in inner:
        taken &= opened_in(test.environment, kinds)
    # An engine of user space has the kernel's ports by a detour only.
    usable = [kind for kind in switch.port_kinds if kind in taken - {PortKind.NIC_PCI}]
    if ENGINES[test.engine].own_memory:
        usable.sort(key=lambda kind: kind in KERNEL_PORTS)
    return usable[0] if usable else switch.port_kinds[0]


def _semantics(test: Test, chained: Sequence[Function]) -> Semantics:
    """Return the semantics that the test names, else the switch's first; in a chain its first that
    brings frames from function to function: by the port where they come in, or learning where
    functions write MACs."""
    switch = SWITCHES[test.switch]
    if test.semantics == "auto" and not chained:
        return switch.semantics[0]
    if chained:
        offered = [s for s in switch.semantics if test.semantics in ("auto", s)]
        steering = [s for s in offered if s in _STEERS_BY_PORT]
        by_macs = [
            s
            for s in offered
            if s is Semantics.LEARNING or (s is Semantics.ROUTED and switch.routes_by_port)
        ]
        written = all(function.writes_macs(test.function_semantics) for function in chained)
        # Of those that write MACs the traffic program alone tells a switch its own beforehand.
        told = all(function.played for function in chained)
        if written:
            steering += [s for s in by_macs if told or s is not Semantics.LEARNING]
        if steering:
            return steering[0]
        if Semantics.LEARNING in by_macs:
            why = (
                "does not tell it its own: frames for it would be flooded to all functions"
                if written
                else "leaves them as they are: the switch would learn one MAC at several ports"
            )
            raise UsageError(
                f"switch {switch.name} learns MACs, and function {chained[0].name} {why}",
                hint="--function forwarder, or a switch that forwards by port",
                axes=("function", "switch"),
            )
        if by_macs:
            able = all(function.rewrites_if_asked for function in chained)
            raise UsageError(
                f"switch {switch.name} is a router, and function {chained[0].name} leaves MACs as "
                "they are: what it sends on would not be for the router",
                hint="--function-semantics mac" if able else "--function forwarder",
                axes=("function", "switch"),
            )
        if offered:
            raise UsageError(
                f"switch {switch.name} is {offered[0]}: it cannot bring frames from function to "
                "function by the port where they come in, nor by learned MACs",
                axes=("switch", "scenario"),
            )
    if test.semantics not in switch.semantics:
        raise UsageError(
            f"switch {switch.name} cannot forward as '{test.semantics}'",
            hint=f"--semantics {','.join(switch.semantics)}",
            axes=("semantics", "switch"),
        )
    return Semantics(test.semantics)
