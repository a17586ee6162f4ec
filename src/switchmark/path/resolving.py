"""The resolution of a test: from names to drivers, and from a scenario to a path of parts with
nodes, addresses and tasks. This module is pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, Literal

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import KERNEL_PORTS, Engine
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Environment
from switchmark.errors import UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.base import Function
from switchmark.model.addresses import Addressing
from switchmark.model.cgroups import V2
from switchmark.model.event import REPLACING
from switchmark.model.plan import HOST, Node
from switchmark.model.refusal import Refusal, unknown_name
from switchmark.model.test import AXES, Test
from switchmark.model.topology import (
    NOT_PROBED,
    DrawnPart,
    Endpoint,
    Findings,
    Flow,
    Functions,
    Memory,
    PortKind,
    Role,
    Semantics,
    Topology,
    Tuning,
    Wiring,
)
from switchmark.model.units import mtu_for, sizes_of
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.path.hosts import (
    Uplink,
    far_switch,
    halves_of,
    home_of,
    hosts_of,
    side_name,
    sides_of,
    uplinks_of,
)
from switchmark.path.path import AddressedFlow, Drivers, Instance, Job, Part, Path, Player
from switchmark.path.placement import SHARED_PROCESS, Placement
from switchmark.plugins import Table
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.searches import TABLE as SEARCHES
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch, with_program

UDP_PORT = 20000
TABLES: Mapping[str, tuple[str, Table[Any]]] = {
    "engines": ("engine", ENGINES),
    "environments": ("environment", ENVIRONMENTS),
    "functions": ("function", FUNCTIONS),
    "scenarios": ("scenario", SCENARIOS),
    "searches": ("search", SEARCHES),
    "switches": ("switch", SWITCHES),
}
"""The noun for a driver, and the table of all drivers, by folder."""
_STEERS_BY_PORT = frozenset({Semantics.PATCH, Semantics.STATIC})


def frame_sizes(test: Test) -> Sequence[int]:
    """Return the frame sizes that a sender cycles through, in bytes with the FCS."""
    return sizes_of(test.frame_size)


def opened_in(environment: Environment, kinds: Collection[PortKind]) -> frozenset[PortKind]:
    """Return the port kinds that an engine or a function with `kinds` can open in an environment.
    In a virtual machine, a port is an interface of the guest's kernel, or a NIC that bypasses
    it."""
    if not environment.separate_kernel:
        return frozenset(kinds)
    return environment.port_kinds if {PortKind.TAP, PortKind.NIC_PCI} & set(kinds) else frozenset()


def unknown_names(test: Test) -> list[Refusal]:
    """Return the refusals of unknown names. They suggest the nearest name, or say why the plug-in
    of that name is unusable."""
    refusals = []
    for event in test.events:
        if event.to and (missing := SWITCHES.why_not(event.to)):
            refusals.append(Refusal(("event",), missing.message, missing.hint))
        elif event.to and event.to not in SWITCHES:
            refusals.append(unknown_name("switch", event.to, (*SWITCHES,), ("event",)))
    for axis in AXES.values():
        if not axis.table:
            continue
        noun, table = TABLES[axis.table]
        name = getattr(test, axis.name)
        if name in table:
            continue
        error = table.why_not(name)
        if name == axis.chosen:
            why = f"{noun} {name} is chosen where a run begins: name one here"
            refusals.append(Refusal((axis.name,), why, f"{axis.option} {axis.default}"))
        elif error is None:
            valid = (*filter(None, [axis.chosen]), *table)
            refusals.append(unknown_name(noun, name, valid, (axis.name,)))
        else:
            unusable = f"'{name}' cannot be used: " * (name in table.unusable)
            refusals.append(Refusal((axis.name,), f"{unusable}{error.message}", error.hint))
    if test.noise is not None:
        try:
            parse_noise(test.noise)
        except UsageError as error:
            refusals.append(Refusal(("noise",), error.message, error.hint))
    return refusals


def drivers_of(test: Test) -> Drivers:
    """Return the drivers that a test names. All names must be known."""
    engine = ENGINES[test.engine]
    noise, noise_cpus = ("", ()) if test.noise is None else parse_noise(test.noise)
    return Drivers(
        switch=SWITCHES[test.switch],
        next_switches={event.to: SWITCHES[event.to] for event in test.events if event.to},
        engine=engine,
        receiver=ENGINES[engine.receiver] if engine.receiver else engine,
        environment=ENVIRONMENTS[test.environment],
        switch_environment=ENVIRONMENTS[test.switch_environment],
        function=FUNCTIONS[test.function],
        scenario=SCENARIOS[test.scenario],
        search=SEARCHES[test.search],
        noise=NOISES[noise] if noise else None,
        noise_cpus=noise_cpus,
    )


def resolve(
    test: Test,
    *,
    prefix: str,
    run_dir: str,
    placement: Placement | None = None,
    found: Findings = NOT_PROBED,
    memory: Literal["hugepages", "no-huge"] = "hugepages",
    cgroups: str = V2,
) -> Path:
    """Draw the scenario of a test, and give every part its drivers, its node, its ends of ports and
    its tasks.

    All names of the test must be known (`unknown_names`). Raise UsageError if the scenario cannot
    be drawn. Without a `placement`, no part has CPUs.
    """
    placement = placement or Placement(test.placement, {}, None, ())
    drivers = drivers_of(test)
    topology = Topology()
    drivers.scenario.draw(topology, test)
    functions = {part.id: FUNCTIONS[part.function] for part in topology.parts}
    chained = [function for function in functions.values() if function.forwards]
    switch, engine = drivers.switch, drivers.engine
    hosts, host = hosts_of(test), home_of(test)
    two = len(hosts) == 2
    sides = sides_of(topology) if two else {}

    def node_on(side: int | None, suffix: str, environment: str, image: str | None = None) -> Node:
        """Return a node of this run. In the environment `host`, a node is only a name."""
        name, home, folder = f"{prefix}-{suffix}", host, run_dir
        if side is not None:
            letter, home = side_name(side), hosts[side]
            name, folder = f"{prefix}-{letter}-{suffix}", f"{run_dir}/{letter}"
        driver = ENVIRONMENTS[environment]
        return Node(
            name,
            environment,
            home,
            folder,
            image,
            isolated=driver.isolated,
            reaches=driver.reaches,
            separate_kernel=driver.separate_kernel,
        )

    nodes = {
        part.id: node_on(sides.get(part.id), part.id, "netns")
        if part.physical
        else node_on(sides.get(part.id), part.id, test.environment, test.image)
        for part in topology.parts
    }
    topology.place(nodes)
    wiring = Wiring(
        prefix=prefix,
        run_dir=run_dir,
        node=node_on(0 if two else None, "sw", test.switch_environment),
        ports=topology.ports,
        flows=topology.crossings,
        kind=_kind(test, drivers, chained),
        semantics=_semantics(test, switch, chained),
        version=Version("", mode=found.mode),
        mtu=mtu_for(test.frame_size),
        cores=placement.pin("switch").cpus,
        queues=max(
            test.queues, engine.device_queues(test.function_cores) if engine.user_memory else 1
        ),
        descriptors=test.descriptors,
        memory=Memory(memory if test.memory == "auto" else test.memory, placement.node),
        tuning=Tuning(test.switch_burst, test.buffers, test.rx_affinity == "fixed"),
        functions=Functions(
            napi=engine.napi,
            ip_stack=engine.needs_ip,
            listen=_functions_listen(test, switch),
            queues=1 if engine.user_memory else engine.device_queues(test.function_cores),
            cores=test.function_cores,
            burst=test.burst,
            offload="on" if test.offloads else "off",
            stamps=test.stamps,
        ),
        answers=found.answers,
    )
    wiring = with_program(wiring, switch, found.programs)
    uplinks: tuple[Uplink, ...] = ()
    switches: tuple[Instance, ...] = (
        Instance("switch", switch, drivers.switch_environment, wiring),
    )
    if two:
        far = node_on(1, "sw", test.switch_environment)
        uplinks = uplinks_of(
            wiring,
            far,
            found.between,
            shared=switch.shares_cable(wiring.semantics),
            past_kernel=PortKind.NIC_PCI in switch.port_kinds,
        )
        names = ("switch", far_switch(far.host))
        halves = halves_of(wiring, far, uplinks, placement.pin(names[1]).cpus)
        switches = tuple(
            Instance(
                name,
                switch,
                drivers.switch_environment,
                with_program(half, switch, found.programs),
                alone=False,
            )
            for name, half in zip(names, halves, strict=True)
        )
    by_crossing = switch.addressing(wiring)
    crossings = {
        (flow.source, flow.sink): replace(addressing, routed=len(switches) * addressing.routed)
        for flow in wiring.flows
        for addressing in (by_crossing[flow.id],)
    }
    flows = tuple(
        AddressedFlow(
            **{member.name: getattr(flow, member.name) for member in fields(flow)},
            addressing=_end_to_end(
                [crossings[crossing] for crossing in flow.crossings],
                rewritten=any(f.writes_macs(test.function_semantics) for f in chained),
            ),
        )
        for flow in topology.flows
    )
    offered = {port: end for switch in switches for port, end in _offered(switch).items()}
    pairs = dict.fromkeys(frozenset((flow.source, flow.sink)) for flow in topology.flows)
    pair_of = {port: number for number, pair in enumerate(pairs) for port in pair}

    def resolved(part: DrawnPart) -> Part:
        """Return a part with its drivers and other properties."""
        function, node = functions[part.id], nodes[part.id]
        environment = ENVIRONMENTS[node.environment]
        port_ids = {port.id for port in part.ports}
        sent = tuple(flow for flow in flows if flow.source in port_ids)
        received = tuple(flow for flow in flows if flow.sink in port_ids)
        ends = _ends(part, offered, environment, function, engine, wiring)
        roles = _roles(test, function, sent, received)
        foreign = node.host if node.host in found.between.foreign else ""
        return Part(
            id=part.id,
            physical=part.physical,
            function=function,
            engine=_engine(drivers, part, sent, ends),
            environment=environment,
            node=node,
            ports=part.ports,
            endpoints=ends,
            switch=next(switch for switch in switches if switch.host == node.host),
            sent=sent,
            received=received,
            roles=roles,
            jobs=_jobs(test, roles, len(distinct(sent or received)), wiring.queues),
            rewrites=_rewrites(test, function, part, crossings),
            pair=pair_of.get(part.ports[0].id),
            pin=placement.pin(part.id),
            version=found.programs.get((node.host, part.function)),
            clock=part.id if environment.separate_kernel else foreign,
        )

    parts = tuple(resolved(part) for part in topology.parts)
    return Path(
        test=test,
        drivers=drivers,
        wiring=wiring,
        switches=switches,
        uplinks=uplinks,
        parts=parts,
        processes=_processes(parts, prefix, placement.policy == SHARED_PROCESS),
        flows=flows,
        crossings=crossings,
        placement=placement,
        cgroups=cgroups,
        found=found,
    )


def _functions_listen(test: Test, switch: Switch) -> bool:
    """Return whether functions listen on the sockets of vhost-user ports. They do so by default if
    an event replaces the switch: only ends that listen accept the next switch."""
    replaced = any(event.kind in REPLACING for event in test.events)
    return test.listen == "functions" or (
        test.listen == "auto" and replaced and "listen" in switch.resources
    )


def turned_to(path: Path, test: Test) -> Path:
    """Return the path for another test that shares it."""
    return replace(path, test=test, drivers=drivers_of(test))


def answered(path: Path, answers: Sequence[bytes]) -> Path:
    """Return a path with the addresses that its switch has chosen. `answers` are the outputs of the
    commands that the switch asks. Raise ValueError if they are garbled."""
    return resolve(
        path.test,
        prefix=path.wiring.prefix,
        run_dir=path.wiring.run_dir,
        placement=path.placement,
        found=replace(path.found, answers=tuple(answers)),
        memory=path.wiring.memory.kind,
        cgroups=path.cgroups,
    )


def _offered(switch: Instance) -> Mapping[str, Endpoint]:
    """Return the functions' ends of a switch's ports, by port id."""
    return switch.driver.endpoints(switch.wiring)


def _ends(
    part: DrawnPart,
    offered: Mapping[str, Endpoint],
    environment: Environment,
    function: Function,
    engine: Engine,
    wiring: Wiring,
) -> tuple[Endpoint, ...]:
    """Return a part's ends of its ports: the ends that the switch offers, as they appear in the
    part's node."""
    past_kernel = engine.user_memory if function.played else PortKind.NIC_PCI in function.port_kinds
    return tuple(
        environment.seen_inside(
            offered[port.id], index, wiring.name(f"e{port.index}"), past_kernel=past_kernel
        )
        for index, port in enumerate(part.ports)
    )


def _roles(
    test: Test, function: Function, sent: Sequence[Flow], received: Sequence[Flow]
) -> tuple[Role, ...]:
    """Return the roles of the traffic program in a part."""
    if function.forwards:
        return (Role.FORWARDER,)
    if test.dimension == "latency":
        return (Role.CLIENT,) if sent else (Role.SERVER,)
    return (Role.SENDER,) * bool(sent) + (Role.RECEIVER,) * bool(received)


def _engine(
    drivers: Drivers, part: DrawnPart, sent: Sequence[Flow], ends: Sequence[Endpoint]
) -> Engine:
    """Return the engine that opens a part's ports. With functions in virtual machines, the test's
    engine may not support a switch port that stays on the host. In that case, return another engine
    that does."""
    engine = drivers.engine if sent else drivers.receiver
    kinds = {end.kind for end in ends}
    if not part.physical or kinds <= engine.port_kinds or engine.needs_ip:
        return engine
    others = (other for other in ENGINES.values() if other.user_memory)
    return next((other for other in others if kinds <= other.port_kinds), engine)


def _jobs(test: Test, roles: Sequence[Role], flows: int, queues: int) -> tuple[Job, ...]:
    """Return the tasks of a part that sends or receives `flows` flows. Every queue has a separate
    sending task, so that a flow stays on its queue. One receiving task reads and counts all
    queues."""
    # With several cores, the traffic program gives every core a queue and a share of the flows.
    queues = queues if test.function_cores == 1 else 1
    flows = max(1, flows) * test.flow_numbers
    bounds = [flows * queue // queues for queue in range(queues + 1)]
    jobs: list[Job] = []
    for role in roles:
        if role is not Role.SENDER:
            jobs.append(Job(role, 0, 0, flows))
            continue
        jobs += [
            Job(role, queue, first, end - first)
            for queue, (first, end) in enumerate(pairwise(bounds))
        ]
    return tuple(jobs)


def _rewrites(
    test: Test,
    function: Function,
    part: DrawnPart,
    crossings: Mapping[tuple[str, str], Addressing],
) -> tuple[Mapping[str, str] | None, ...]:
    """Return the MACs that a function writes into outgoing frames, by port. If a chain is used in
    one direction, frames in the other direction go back to the port's source of frames."""
    if not function.writes_macs(test.function_semantics):
        return tuple(None for _ in part.ports)
    rewrites: dict[str, dict[str, str]] = {}
    for (_, sink), a in crossings.items():
        rewrites.setdefault(sink, {"src_mac": a.seen_dst_mac, "dst_mac": a.seen_src_mac})
    for (source, _), a in crossings.items():
        rewrites[source] = {"src_mac": a.sent_src_mac, "dst_mac": a.sent_dst_mac}
    return tuple(rewrites[port.id] for port in part.ports)


def _processes(parts: Sequence[Part], prefix: str, together: bool) -> tuple[Player, ...]:
    """Return the processes of the traffic program. With `together`, a pair shares a process."""
    if not together:
        return tuple(Player(part.node, (part,)) for part in parts if part.function.played)
    pairs: dict[int | None, list[Part]] = {}
    for part in parts:
        pairs.setdefault(part.pair, []).append(part)
    return tuple(
        Player(Node(f"{prefix}-pair{pair}", HOST.environment), tuple(ends))
        for pair, ends in pairs.items()
    )


def distinct(flows: Sequence[AddressedFlow]) -> tuple[AddressedFlow, ...]:
    """Return the flows without copies. Copies consist of the frames of the first flow."""
    return tuple({flow.index: flow for flow in reversed(flows)}.values())[::-1]


def _end_to_end(crossed: Sequence[Addressing], *, rewritten: bool) -> Addressing:
    """Return the addresses of a flow from those of its crossings. If no switch or function writes
    MACs, frames carry the sink's MAC from the start. `rewritten` means that functions write
    MACs."""
    first, last = crossed[0], crossed[-1]
    if first.rewritten or rewritten:
        first = replace(first, seen_src_mac=last.seen_src_mac)
    else:
        first = replace(first, sent_dst_mac=last.seen_dst_mac)
    routed = sum(crossing.routed for crossing in crossed)
    return replace(first, seen_dst_mac=last.seen_dst_mac, sink_ip=last.sink_ip, routed=routed)


def _kind(test: Test, drivers: Drivers, chained: Sequence[Function]) -> PortKind:
    """Return the kind of ports.

    The test's kind comes first. With `auto`, return the first kind of the switch that the engine,
    the environment and the functions support. An engine in user space prefers kinds in user space
    over kinds of the kernel. If no kind fits, return the first kind of the switch, which is then
    refused.
    """
    switch, engine, environment = drivers.switch, drivers.engine, drivers.environment
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
    inner = [engine.port_kinds, *(function.port_kinds for function in chained)]
    taken = environment.port_kinds
    for kinds in inner:
        taken &= opened_in(environment, kinds)
    # An engine in user space reaches kernel ports only by a detour.
    usable = [kind for kind in switch.port_kinds if kind in taken - {PortKind.NIC_PCI}]
    if engine.user_memory:
        usable.sort(key=lambda kind: kind in KERNEL_PORTS)
    return usable[0] if usable else switch.port_kinds[0]


def _semantics(test: Test, switch: Switch, chained: Sequence[Function]) -> Semantics:
    """Return the forwarding semantics.

    The test's semantics come first. With `auto`, return the first of the switch. In a chain, return
    the first semantics that can steer frames between functions: by incoming port, or by learning if
    functions write MACs.
    """
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
        writes_macs = all(function.writes_macs(test.function_semantics) for function in chained)
        # Among functions that write MACs, only the traffic program announces its MACs to the
        # switch.
        all_played = all(function.played for function in chained)
        if writes_macs:
            steering += [s for s in by_macs if all_played or s is not Semantics.LEARNING]
        if steering:
            return steering[0]
        if Semantics.LEARNING in by_macs:
            why = (
                "does not announce its MAC: frames for it would be flooded to all functions"
                if writes_macs
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
