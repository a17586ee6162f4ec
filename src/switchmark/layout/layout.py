"""From a test to what is built for it: topology, wiring, nodes, addresses, plan. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import KERNEL_PORTS, Engine, traffic_program
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Attachment, Needs, Neighbour, guest_address
from switchmark.errors import UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.base import Function, Hosted
from switchmark.machine.cgroups import V2, limited_group
from switchmark.machine.placement import SHARED_PROCESS, Tenant
from switchmark.model.plan import HOST, Check, Node, Plan, Reserve, Run, Spawn, Wait
from switchmark.model.spec import Test
from switchmark.model.topology import (
    Addressing,
    Endpoint,
    Flow,
    Part,
    Port,
    PortKind,
    Role,
    Semantics,
    Topology,
    Wiring,
)
from switchmark.model.units import IMIX_SIZES, mtu_for
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch

__all__ = [
    "BARE",
    "UDP_PORT",
    "Layout",
    "frame_sizes",
    "lay_out",
    "network_stack",
    "opened_in",
]

UDP_PORT = 20000
_SWITCH_CAPABILITIES = frozenset({"NET_ADMIN", "NET_RAW", "SYS_NICE"})
_TUN = "/dev/net/tun"
_GUEST_MB = 256
_GUEST_OF_DPDK_MB = 192  # a function there that is a DPDK program takes up to 168 of it
_STEERS_BY_PORT = frozenset({Semantics.PATCH, Semantics.STATIC})
BARE = frozenset({"host", "netns"})
"""Environments whose processes are the host's own: what limits them is a cgroup made here, as
it is for machines."""


@dataclass(frozen=True, slots=True)
class Layout:
    """All that is decided before the machine is touched.

    `nodes` has a node for each part, `endpoints` one for each port, `addressing` one for each
    flow from end to end, `crossings` one for each pair of ports between which frames cross the
    switch. `receivers` is the engine of parts that only receive, or forward. `policy` is the
    placement that is followed, `modes` are what the probes of environments found, `seats` the CPUs
    of each part (none: any).
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
    seats: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def sent_by(self, part: Part) -> tuple[Flow, ...]:
        """The flows that begin at a part."""
        return tuple(f for f in self.flows if f.source in {p.id for p in part.ports})

    def received_by(self, part: Part) -> tuple[Flow, ...]:
        """The flows that end at a part."""
        return tuple(f for f in self.flows if f.sink in {p.id for p in part.ports})

    @property
    def played(self) -> tuple[Part, ...]:
        """The parts that the traffic program plays."""
        return tuple(part for part in self.parts if FUNCTIONS[part.function].played)

    @property
    def hosted(self) -> tuple[tuple[Part, Function, Hosted], ...]:
        """The other parts: programs of their own."""
        return tuple(
            (part, FUNCTIONS[part.function], self._hosted(self.nodes[part.id], (part,)))
            for part in self.parts
            if part not in self.played
        )

    def _hosted(self, node: Node, parts: Sequence[Part]) -> Hosted:
        ports = tuple(port for part in parts for port in part.ports)
        cores = tuple(cpu for part in parts for cpu in self.seats.get(part.id, ()))
        return Hosted(
            node, ports, tuple(self.endpoints[port.id] for port in ports), self.wiring, cores
        )

    @property
    def steering(self) -> str | None:
        """How frames find their way from function to function; None where there is no chain."""
        if all(not flow.hops for flow in self.flows):
            return None
        if self.wiring.semantics is Semantics.LEARNING:
            return "learning by rewritten MACs"
        return f"static by in-port{' and source MAC' * (self.test.chains > 1)}"

    def rewrites(self, part: Part) -> list[dict[str, str] | None]:
        """The MACs that a forwarder writes into what leaves by each of its ports. What comes back
        to a port of a chain that is used one way goes to whom the frames there come from."""
        if not FUNCTIONS[part.function].rewrites:
            return [None for _ in part.ports]
        found: dict[str, dict[str, str]] = {}
        for (_, sink), a in self.crossings.items():
            found.setdefault(sink, {"src_mac": a.seen_dst_mac, "dst_mac": a.seen_src_mac})
        for (source, _), a in self.crossings.items():
            found[source] = {"src_mac": a.sent_src_mac, "dst_mac": a.sent_dst_mac}
        return [found[port.id] for port in part.ports]

    def forwards(self, part: Part) -> bool:
        """Is a part a function of a chain, whoever plays it?"""
        return FUNCTIONS[part.function].forwards

    def roles(self, part: Part) -> tuple[Role, ...]:
        """What the traffic program does for a part."""
        if self.forwards(part):
            return (Role.FORWARDER,)
        sends, receives = bool(self.sent_by(part)), bool(self.received_by(part))
        if self.test.dimension == "latency":
            return (Role.CLIENT,) if sends else (Role.SERVER,)
        return (Role.SENDER,) * sends + (Role.RECEIVER,) * receives

    def engine_of(self, part: Part) -> Engine:
        """The engine that a part's ports are opened with. Where functions are in machines, it may
        not take a port of the switch that stays on the host: then it is one that does."""
        engine = self.engine if self.sent_by(part) else self.receivers
        kinds = {self.endpoints[port.id].kind for port in part.ports}
        if not part.physical or kinds <= engine.port_kinds or engine.needs_ip:
            return engine
        others = (other for other in ENGINES.values() if other.own_memory)
        return next((other for other in others if kinds <= other.port_kinds), engine)

    @property
    def own_memory(self) -> bool:
        """Do engines hold frames in memory of their own?"""
        return any(self.engine_of(part).own_memory for part in self.parts)

    def tenants(self) -> list[Tenant]:
        """The parts as the placement knows them; parts of a pair share a group."""
        groups = {
            port: index
            for index, pair in enumerate(
                dict.fromkeys(frozenset((f.source, f.sink)) for f in self.flows)
            )
            for port in pair
        }
        parts = [
            Tenant(
                part.id,
                self._kind_of_tenant(part),
                polls=FUNCTIONS[part.function].polls,
                group=groups.get(part.ports[0].id),
            )
            for part in self.parts
        ]
        busy = self.switch.own_core(self.wiring.mode)
        return [Tenant("switch", "switch", polls=busy, cores=self.test.switch_cores), *parts]

    def _kind_of_tenant(self, part: Part) -> str:
        function = FUNCTIONS[part.function]
        if not function.played:
            return "function"
        if function.forwards:
            return "forwarder"
        return "sender" if self.sent_by(part) else "receiver"

    @property
    def streams(self) -> int:
        """How many ports frames are sent from: a rate is that of each."""
        return len({flow.source for flow in self.flows})

    def copies(self, flow: Flow) -> tuple[Flow, ...]:
        """The flows that carry the frames of this one, itself among them."""
        return tuple(each for each in self.flows if each.index == flow.index)

    def first_flow(self, flow: Flow) -> int:
        """The number of a flow's first sub-flow."""
        return flow.index * self.test.flows

    @property
    def together(self) -> bool:
        """Is each sender in one process with its receiver?"""
        return self.policy == SHARED_PROCESS

    def processes(self) -> list[tuple[Node, tuple[Part, ...]]]:
        """The traffic processes: the node that each runs at, and the parts in it."""
        if not self.together:
            return [(self.nodes[part.id], (part,)) for part in self.played]
        pairs: dict[int | None, list[Part]] = {}
        for tenant, part in zip(self.tenants()[1:], self.parts, strict=True):
            pairs.setdefault(tenant.group, []).append(part)
        return [
            (Node(f"{self.wiring.prefix}-pair{group}", HOST.environment), tuple(parts))
            for group, parts in pairs.items()
        ]

    def place_of(self, part: Part) -> Node:
        """The node of the traffic process that plays a part."""
        return next(node for node, parts in self.processes() if part in parts)

    def own_kernel(self, part: Part) -> bool:
        """Does a part run on another kernel than this host's, with another clock?"""
        return ENVIRONMENTS[self.nodes[part.id].environment].own_kernel

    def guest_megabytes(self) -> int:
        """The memory of all machines that are made for this test."""
        return sum(self._needs(part).megabytes for part in self.parts if self.own_kernel(part))

    def netns(self, part: Part) -> str | None:
        """The path by which setns() enters the network namespace of a part."""
        node = self.nodes[part.id]
        return ENVIRONMENTS[node.environment].netns(node)

    def attachments(self, part: Part) -> list[Attachment]:
        """What is brought into the node of a part."""
        return [self._attachment(port) for port in part.ports]

    def _attachment(self, port: Port) -> Attachment:
        address, neighbours = None, []
        if self.engine.needs_ip:
            for flow in self.flows:
                a = self.addressing[flow.id]
                if flow.source == port.id:
                    address = f"{a.source_ip}/{a.prefix}"
                    neighbours.append(Neighbour(a.sink_ip, a.sent_dst_mac, a.gateway))
                elif flow.sink == port.id:
                    # The way back, for answers and announcements, mirrors the way there.
                    address = f"{a.sink_ip}/{a.prefix}"
                    via = None if a.gateway is None else _gateway_of(a.sink_ip, a)
                    neighbours.append(Neighbour(a.source_ip, a.seen_src_mac, via))
        return Attachment(
            self.endpoints[port.id],
            self.wiring.at,
            address=address,
            neighbours=tuple(dict.fromkeys(neighbours)),
        )

    def build(self) -> Plan:
        """Everything: `construct`, then `join` once the ports are being opened, and `settled`
        when they are open."""
        return self.construct() + self.join() + self.settled()

    def construct(self) -> Plan:
        """From nothing to programs that wait for commands."""
        steps = self.create_nodes()
        steps += self._limited("switch", self.wiring.at, self.switch.start(self.wiring))
        for part in filter(self.own_kernel, self.parts):
            # A machine is started with its ports there.
            steps += self._limited("function", self.nodes[part.id], self.machine(part))
        if self._machines_await_switch:
            steps += self._join()
        for part in self.parts:
            node = self.nodes[part.id]
            steps += ENVIRONMENTS[node.environment].attach(node, self.attachments(part))
        for node, parts in self.processes():
            ports = [self.endpoints[port.id] for part in parts for port in part.ports]
            steps += self.engine_of(parts[0]).prepare(self.wiring, node, ports)
            start = FUNCTIONS[parts[0].function].start(self._hosted(node, parts))
            steps += self._confined(parts[0], start)
        for part, function, hosted in self.hosted:
            steps += self._confined(part, function.start(hosted))
        # Pages first, so that they are given back last: a program in a container may live until
        # the container goes.
        return tuple(sorted(steps, key=lambda step: not isinstance(step, Reserve)))

    def machine(self, part: Part) -> Plan:
        """The start of the machine that a part runs in; none where it is in another node."""
        return self.node_of(part) if self.own_kernel(part) else ()

    def create_nodes(self) -> Plan:
        """The node of the switch and those of the parts, but for machines."""
        at = self.wiring.at
        steps = ENVIRONMENTS[at.environment].create(at, self._switch_needs())
        for part in self.parts:
            if self.own_kernel(part):
                continue
            created = self.node_of(part)
            # Nodes share a daemon or a root: each of them says it, and it is made once.
            steps += tuple(step for step in created if step not in steps)
        return steps

    def node_of(self, part: Part) -> Plan:
        """The steps that make the node of a part."""
        node = self.nodes[part.id]
        return ENVIRONMENTS[node.environment].create(node, self._needs(part))

    def _confined(self, part: Part, start: Plan) -> Plan:
        """The start of a part's program under the limit of functions; in a machine it is that
        of the machine."""
        if part.physical or self.own_kernel(part):
            return start
        return self._limited("function", self.nodes[part.id], start)

    def _limited(self, who: str, node: Node, steps: Plan) -> Plan:
        """The steps with their processes under the CPU limit of the switch or of a function."""
        percent = self.test.limits.get(who)
        ours = node.environment in BARE or ENVIRONMENTS[node.environment].own_kernel
        if percent is None or not ours:
            return steps
        folder, made = limited_group(self.cgroups, node.name, percent)
        within = (traffic_program(), "in-cgroup", folder, "--")
        return made + tuple(
            replace(step, within=within) if isinstance(step, Spawn) else step for step in steps
        )

    def _switch_needs(self) -> Needs:
        """Of the switch's node; which programs it starts is its own business."""
        return Needs(
            run_dir=self.wiring.run_dir,
            programs=(str(Path(sys.executable).parent), str(Path(traffic_program()).parent)),
            capabilities=_SWITCH_CAPABILITIES,
            devices=(_TUN,),
            hugepages=self.engine.own_memory and self.wiring.memory == "hugepages",
            cpu_limit=self.test.limits.get("switch"),
            mode=self.modes.get(self.wiring.at.environment),
        )

    def _needs(self, part: Part) -> Needs:
        engine = self.engine_of(part)
        ends = [self.endpoints[port.id] for port in part.ports]
        if FUNCTIONS[part.function].played:
            more = engine.guest_megabytes(self.wiring, ends)
        else:
            more = _GUEST_OF_DPDK_MB if any(end.device for end in ends) else 0
        return Needs(
            run_dir=self.wiring.run_dir,
            programs=(str(Path(traffic_program()).parent),),
            megabytes=_GUEST_MB + more,
            capabilities=self._capabilities(part),
            hugepages=engine.own_memory and self.wiring.memory == "hugepages",
            cpu_limit=None if part.physical else self.test.limits.get("function"),
            cpus=self.seats.get(part.id, ()),
            image=self.nodes[part.id].image,
            attachments=tuple(self.attachments(part)),
            mode=self.modes.get(self.nodes[part.id].environment),
        )

    def _capabilities(self, part: Part) -> frozenset[str]:
        """Of the node of a part: what its function takes, and the engine of one that is played."""
        function = FUNCTIONS[part.function]
        if not function.played:
            return function.capabilities
        kinds = {self.endpoints[port.id].kind for port in part.ports}
        granted = self.engine_of(part).granted(kinds, self.test.driver)
        return granted | function.capabilities

    def join(self) -> Plan:
        """Waits for the sockets of functions that the switch connects to, and joins them. Nothing
        where machines, which start only then, have been joined."""
        return () if self._machines_await_switch else self._join()

    def _join(self) -> Plan:
        programs = [*(parts for _, parts in self.processes()), *((p,) for p, _, _ in self.hosted)]
        paths = [
            self.endpoints[parts[0].ports[0].id].path
            for parts in programs
            if self.awaits_switch(parts)
        ]
        if self._machines_await_switch:
            # What else the switch connects to listens later: it is tried again.
            machines = filter(self.own_kernel, self.parts)
            paths = [self.endpoints[port.id].path for part in machines for port in part.ports]
        listening = tuple(
            Wait(f"the function listens on {path}", Check(("test", "-S", path))) for path in paths
        )
        return listening + self.switch.join(self.wiring)

    @property
    def _machines_await_switch(self) -> bool:
        """Do machines start only when the switch has connected to their ports?"""
        ends = [
            self.endpoints[port.id]
            for part in filter(self.own_kernel, self.parts)
            for port in part.ports
        ]
        return any(end.kind is PortKind.VHOST_USER and end.server for end in ends)

    def settled(self) -> Plan:
        """Waits until the switch has its links, and functions forward."""
        steps = self.switch.settled(self.wiring)
        for _, function, hosted in self.hosted:
            steps += function.settled(hosted)
        return steps

    def awaits_switch(self, parts: Sequence[Part]) -> bool:
        """Is the first port of a process opened only when the switch connects to it?"""
        end = self.endpoints[parts[0].ports[0].id]
        ours = not self.own_kernel(parts[0])  # in a machine it is an interface of the guest's
        return ours and end.kind is PortKind.VHOST_USER and end.server and not end.backend

    def stack(self, part: Part) -> Node:
        """Where the network stack of a part's node is looked at."""
        return network_stack(self.nodes[part.id])

    def part_counters(self) -> tuple[Run, ...]:
        """Commands that print the links in each part's node, to place what was dropped there."""
        nodes = dict.fromkeys(map(self.stack, self.parts))
        return tuple(
            Run(f"counters of the links at {node.name}", ("ip", "-j", "-s", "link", "show"), node)
            for node in nodes
            if any(self.endpoints[p.id].ifname for part in self.parts for p in part.ports)
        )


def frame_sizes(test: Test) -> Sequence[int]:
    """The frame sizes that a sender cycles through, bytes with the FCS."""
    return IMIX_SIZES if isinstance(test.frame_size, str) else (test.frame_size,)


def opened_in(environment: str, kinds: Collection[PortKind]) -> frozenset[PortKind]:
    """The kinds of ports that an engine or a function, which takes `kinds`, can open in an
    environment: in a machine each of its ports is an interface of the guest's kernel, or a NIC past
    it."""
    found = ENVIRONMENTS[environment]
    if not found.own_kernel:
        return frozenset(kinds)
    return found.port_kinds if (KERNEL_PORTS | {PortKind.NIC_PCI}) & set(kinds) else frozenset()


def network_stack(node: Node) -> Node:
    """Where the network stack of a node is looked at, with the programs and files of the host: a
    namespace that has a name is entered in 3 ms, a container in 20 to 200."""
    outside = replace(node, environment="netns")
    named = ENVIRONMENTS[node.environment].netns(node)
    return outside if named == ENVIRONMENTS["netns"].netns(outside) else node


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
    seats: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> Layout:
    """Draw the test's scenario and give every part a node, every port its ends.

    All names of the test must be known (`layout.resolve`). UsageError for what the
    scenario cannot draw. `policy` is the placement that is followed: what the test asks for, unless
    that left it open.
    """
    topology = Topology()
    SCENARIOS[test.scenario].draw(topology, test)
    chained = [FUNCTIONS[p.function] for p in topology.parts if FUNCTIONS[p.function].forwards]
    switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
    nodes = {
        part.id: _node(prefix, run_dir, part.id, "netns")
        if part.physical
        else _node(prefix, run_dir, part.id, test.environment, test.image)
        for part in topology.parts
    }
    wiring = Wiring(
        prefix=prefix,
        run_dir=run_dir,
        at=_node(prefix, run_dir, "sw", test.switch_environment),
        ports=topology.ports,
        flows=topology.crossings,
        nodes=nodes,
        kind=_kind(test, chained),
        semantics=_semantics(test, chained),
        mode=mode,
        mtu=mtu_for(test.frame_size),
        napi=engine.napi,
        ip_stack=engine.needs_ip,
        cores=cores,
        node=node,
        queues=test.queues,
        descriptors=test.descriptors,
        burst=test.burst,
        memory=memory if test.memory == "auto" else test.memory,
        offload=test.offload,
    )
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
            flow.id: _end_to_end([crossings[crossing] for crossing in flow.crossings], chained)
            for flow in topology.flows
        },
        crossings=crossings,
        policy=policy or test.placement,
        cgroups=cgroups,
        modes=modes,
        seats=seats,
    )


def _endpoints(
    switch: Switch, wiring: Wiring, parts: Sequence[Part], engine: Engine
) -> Mapping[str, Endpoint]:
    """The switch's, and in a machine an interface for each, or a NIC that the engine opens past
    the guest's kernel."""
    ends = dict(switch.endpoints(wiring))
    for part in parts:
        if not ENVIRONMENTS[wiring.nodes[part.id].environment].own_kernel:
            continue
        function = FUNCTIONS[part.function]
        past_kernel = (
            engine.own_memory if function.played else PortKind.NIC_PCI in function.port_kinds
        )
        for index, port in enumerate(part.ports):
            end = ends[port.id]
            if past_kernel:
                ends[port.id] = replace(end, ifname="", device=guest_address(index))
            elif not end.ifname:
                ends[port.id] = replace(end, ifname=wiring.name(f"e{port.index}"))
    return ends


def _end_to_end(crossed: Sequence[Addressing], chained: Sequence[Function]) -> Addressing:
    """The addresses of a flow, from those of its crossings. Where nobody writes MACs its frames
    are for the sink from the start."""
    first, last = crossed[0], crossed[-1]
    if first.rewritten or any(function.rewrites for function in chained):
        first = replace(first, seen_src_mac=last.seen_src_mac)
    else:
        first = replace(first, sent_dst_mac=last.seen_dst_mac)
    routed = sum(crossing.routed for crossing in crossed)
    return replace(first, seen_dst_mac=last.seen_dst_mac, sink_ip=last.sink_ip, routed=routed)


def _kind(test: Test, chained: Sequence[Function]) -> PortKind:
    """The kind that the test names, else the first of the switch's that engine, environment and
    functions take too, those of user space before the kernel's where the engine is of user space;
    the switch's first where there is none, which `layout.resolve` refuses."""
    switch = SWITCHES[test.switch]
    if test.port != "auto":
        if test.port not in switch.port_kinds:
            raise UsageError(
                f"switch {switch.name} has no ports of kind {test.port}",
                hint=f"--port {' or '.join(switch.port_kinds)}",
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
    """What the test names, else the switch's first; in a chain its first that brings frames from
    function to function: by the port where they come in, or learning where functions write MACs.
    """
    switch = SWITCHES[test.switch]
    if test.semantics == "auto" and not chained:
        return switch.semantics[0]
    if chained:
        offered = [s for s in switch.semantics if test.semantics in ("auto", s)]
        steering = [s for s in offered if s in _STEERS_BY_PORT]
        if all(function.rewrites for function in chained):
            steering += [s for s in offered if s is Semantics.LEARNING]
        if steering:
            return steering[0]
        if offered and Semantics.LEARNING in offered:
            raise UsageError(
                f"switch {switch.name} learns MACs, and function {chained[0].name} leaves them as "
                "they are: the switch would learn one MAC at several ports",
                hint="--function forwarder, or a switch that forwards by port",
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
            hint=f"--semantics {' or '.join(switch.semantics)}",
            axes=("semantics", "switch"),
        )
    return Semantics(test.semantics)


def _node(
    prefix: str, run_dir: str, suffix: str, environment: str, image: str | None = None
) -> Node:
    """A node of this run; in the environment `host` a name of its own, but no place."""
    return Node(f"{prefix}-{suffix}", environment, run_dir=run_dir, image=image)


def _gateway_of(ip: str, a: Addressing) -> str:
    """The router's address in the sink's network: that of the source's, in the other /24."""
    assert a.gateway is not None
    return f"{ip.rsplit('.', 1)[0]}.{a.gateway.rsplit('.', 1)[1]}"
