"""This module decides who plays what in a layout: the roles of its parts, their engines, and the
processes they are in. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import Engine
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.base import Function, Hosted
from switchmark.model.plan import HOST, Node, Plan, on_host
from switchmark.model.topology import Part, Role, Semantics, Wiring
from switchmark.path.layout import Layout
from switchmark.path.placement import CpuUser
from switchmark.runs.nics import switch_nics
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.across import far_switch


def played_parts(layout: Layout) -> tuple[Part, ...]:
    """Return the parts that the traffic program plays."""
    return tuple(part for part in layout.parts if FUNCTIONS[part.function].played)


def hosted_parts(layout: Layout) -> tuple[tuple[Part, Function, Hosted], ...]:
    """Return the other parts: programs of their own."""
    return tuple(
        (part, FUNCTIONS[part.function], as_hosted(layout, layout.nodes[part.id], (part,)))
        for part in layout.parts
        if not FUNCTIONS[part.function].played
    )


def as_hosted(layout: Layout, node: Node, parts: Sequence[Part]) -> Hosted:
    """Return what a function that plays these parts in one node is started with."""
    ports = tuple(port for part in parts for port in part.ports)
    cores = tuple(cpu for part in parts for cpu in layout.cpus.get(part.id, ()))
    written = (rewrite for part in parts for rewrite in rewrites_of(layout, part))
    return Hosted(
        node,
        ports,
        tuple(layout.endpoints[port.id] for port in ports),
        layout.wiring_of(parts[0]),
        cores,
        {port.id: macs["dst_mac"] for port, macs in zip(ports, written, strict=True) if macs},
        layout.probed.get((node.host, parts[0].function)),
    )


def steering_of(layout: Layout) -> str | None:
    """Return how frames find their way from function to function; None where there is no chain."""
    if all(not flow.hops for flow in layout.flows):
        return None
    if layout.wiring.semantics is Semantics.LEARNING:
        return "learning by rewritten MACs"
    if layout.wiring.semantics is Semantics.ROUTED:
        return "routed by in-port"
    return f"static by in-port{' and source MAC' * (layout.test.chains > 1)}"


def rewrites_of(layout: Layout, part: Part) -> list[dict[str, str] | None]:
    """Return the MACs that a function writes into what leaves by each of its ports. What comes
    back to a port of a chain that is used one way goes to whom the frames there come from."""
    if not FUNCTIONS[part.function].writes_macs(layout.test.function_semantics):
        return [None for _ in part.ports]
    rewrites: dict[str, dict[str, str]] = {}
    for (_, sink), a in layout.crossings.items():
        rewrites.setdefault(sink, {"src_mac": a.seen_dst_mac, "dst_mac": a.seen_src_mac})
    for (source, _), a in layout.crossings.items():
        rewrites[source] = {"src_mac": a.sent_src_mac, "dst_mac": a.sent_dst_mac}
    return [rewrites[port.id] for port in part.ports]


def forwards(part: Part) -> bool:
    """Say whether a part is a function of a chain, whoever plays it."""
    return FUNCTIONS[part.function].forwards


def roles_of(layout: Layout, part: Part) -> tuple[Role, ...]:
    """Return the roles of the traffic program that plays a part."""
    if forwards(part):
        return (Role.FORWARDER,)
    sends, receives = bool(layout.sent_by(part)), bool(layout.received_by(part))
    if layout.test.dimension == "latency":
        return (Role.CLIENT,) if sends else (Role.SERVER,)
    return (Role.SENDER,) * sends + (Role.RECEIVER,) * receives


def engine_of(layout: Layout, part: Part) -> Engine:
    """Return the engine that a part's ports are opened with. Where functions are in virtual
    machines, it may not take a port of the switch that stays on the host: then it is one that
    does."""
    engine = layout.engine if layout.sent_by(part) else layout.receivers
    kinds = {layout.endpoints[port.id].kind for port in part.ports}
    if not part.physical or kinds <= engine.port_kinds or engine.needs_ip:
        return engine
    others = (other for other in ENGINES.values() if other.own_memory)
    return next((other for other in others if kinds <= other.port_kinds), engine)


def has_own_memory(layout: Layout) -> bool:
    """Say whether engines hold frames in memory of their own."""
    return any(engine_of(layout, part).own_memory for part in layout.parts)


def cpu_users_of(layout: Layout) -> list[CpuUser]:
    """Return the parts as the placement knows them; parts of a pair share a group."""
    groups = {
        port: index
        for index, pair in enumerate(
            dict.fromkeys(frozenset((f.source, f.sink)) for f in layout.flows)
        )
        for port in pair
    }
    parts = [
        CpuUser(
            part.id,
            _kind_of_cpu_user(layout, part),
            polls=FUNCTIONS[part.function].polls,
            group=groups.get(part.ports[0].id),
            cores=layout.test.function_cores if FUNCTIONS[part.function].played else 1,
            function=not part.physical,
            nics=tuple(port.nic_peer for port in part.ports if port.nic_peer),
        )
        for part in layout.parts
    ]
    busy = layout.switch.own_core(layout.wiring.version.mode)
    cores, spread = layout.test.switch_core_count, is_spread(layout)
    names = ("switch", *(far_switch(each.at.host) for each in layout.wirings[1:]))
    switches = [
        CpuUser(name, "switch", busy, cores=cores, spread=spread, nics=switch_nics(each.ports))
        for name, each in zip(names, layout.wirings, strict=True)
    ]
    return [*switches, *parts]


def instances_of(layout: Layout) -> list[tuple[str, Wiring, Plan]]:
    """Return the instances of the switch: the name that each has among parts, its wiring, and the
    steps that start it."""
    if len(layout.wirings) == 1:
        return [("switch", layout.wiring, layout.switch.start(layout.wiring))]
    names = ("switch", far_switch(layout.wirings[1].at.host))
    switch = SWITCHES[layout.test.switch]
    return [
        (name, half, on_host(switch.start(half), half.at.host))
        for name, half in zip(names, layout.wirings, strict=True)
    ]


def is_spread(layout: Layout) -> bool:
    """Say whether a switch in the kernel is to work on CPUs that the test asks for."""
    asked = layout.test.switch_cores != "auto"
    return asked and not layout.switch.own_core(layout.wiring.version.mode)


def _kind_of_cpu_user(layout: Layout, part: Part) -> str:
    function = FUNCTIONS[part.function]
    if not function.played:
        return "function"
    if function.forwards:
        return "forwarder"
    return "sender" if layout.sent_by(part) else "receiver"


def processes_of(layout: Layout) -> list[tuple[Node, tuple[Part, ...]]]:
    """Return the traffic processes: the node that each runs at, and the parts in it."""
    if not layout.together:
        return [(layout.nodes[part.id], (part,)) for part in played_parts(layout)]
    pairs: dict[int | None, list[Part]] = {}
    parts = cpu_users_of(layout)[-len(layout.parts) :]
    for cpu_user, part in zip(parts, layout.parts, strict=True):
        pairs.setdefault(cpu_user.group, []).append(part)
    return [
        (Node(f"{layout.wiring.prefix}-pair{group}", HOST.environment), tuple(parts))
        for group, parts in pairs.items()
    ]


def place_of(layout: Layout, part: Part) -> Node:
    """Return the node of the traffic process that plays a part."""
    return next(node for node, parts in processes_of(layout) if part in parts)


def own_kernel(layout: Layout, part: Part) -> bool:
    """Say whether a part runs on another kernel than this host's, with another clock."""
    return ENVIRONMENTS[layout.nodes[part.id].environment].own_kernel


def clock_of(layout: Layout, part: Part) -> str:
    """Return the name of the clock that a part reads: its own where it has a kernel of its own, its
    host's, or none where that is this host's."""
    host = layout.nodes[part.id].host
    return part.id if own_kernel(layout, part) else host if host in layout.between.foreign else ""


def parts_in_vms(layout: Layout) -> tuple[Part, ...]:
    """Return the parts that run in virtual machines: each on a kernel of its own."""
    return tuple(part for part in layout.parts if own_kernel(layout, part))
