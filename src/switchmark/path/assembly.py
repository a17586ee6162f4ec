"""This module makes the plan of a layout, from nothing to functions that forward, in the order in
which it is carried out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.hosts.programs import tool_program
from switchmark.model.plan import HOST, Check, Node, Plan, Reserve, Run, Spawn, Step, Wait, on_host
from switchmark.model.topology import Part, PortKind
from switchmark.path.layout import Layout
from switchmark.path.needs import attachments_of, needs_of, stack_of, switch_needs
from switchmark.path.roles import (
    as_hosted,
    engine_of,
    hosted_parts,
    own_kernel,
    parts_in_vms,
    processes_of,
)
from switchmark.path.spreading import spread
from switchmark.runs.cgroups import limited_group
from switchmark.runs.together import between
from switchmark.switches.across import Across
from switchmark.switches.links import READ_LINKS


def build(layout: Layout) -> Plan:
    """Return the whole plan: `construct`, then `join` once the ports are being opened, and
    `settled` when they are open."""
    return construct(layout) + join(layout) + settled(layout)


def construct(layout: Layout) -> Plan:
    """Return the steps from nothing to programs that wait for commands."""
    steps = create_nodes(layout)
    switch = between(layout.switch.start(layout.wiring))
    steps += _limited(layout, "switch", layout.wiring.at, switch)
    steps += spread(layout)
    for part in parts_in_vms(layout):
        # A machine is started with its ports there.
        steps += _limited(layout, "function", layout.nodes[part.id], vm_of(layout, part))
    if _vms_await_switch(layout):
        steps += _join(layout)
    for part in layout.parts:
        node = layout.nodes[part.id]
        attached = ENVIRONMENTS[node.environment].attach(node, attachments_of(layout, part))
        steps += on_host(attached, node.host)
    for node, parts in processes_of(layout):
        ports = [layout.endpoints[port.id] for part in parts for port in part.ports]
        wiring = layout.wiring_of(parts[0])
        steps += on_host(engine_of(layout, parts[0]).prepare(wiring, node, ports), node.host)
        start = FUNCTIONS[parts[0].function].start(as_hosted(layout, node, parts))
        steps += _confined(layout, parts[0], start)
    for part, function, hosted in hosted_parts(layout):
        steps += _confined(layout, part, function.start(hosted))
    # Pages first, so that they are given back last: a program in a container may live until
    # the container goes.
    first = sorted(steps, key=lambda step: not isinstance(step, Reserve))
    return tuple(_of_machine(layout, step) for step in first)


def _of_machine(layout: Layout, step: Step) -> Step:
    """Return a step; one that reserves pages, of hosts that are this machine, reserves this
    machine's, so that each has its own."""
    if isinstance(step, Reserve) and layout.between.one_machine and not layout.between.foreign:
        return replace(step, at=HOST)
    return step


def vm_of(layout: Layout, part: Part) -> Plan:
    """Return the steps that start the virtual machine of a part; none where it is in another
    node."""
    return node_of(layout, part) if own_kernel(layout, part) else ()


def create_nodes(layout: Layout) -> Plan:
    """Return the steps that make the node of the switch and those of the parts, but for virtual
    machines."""
    steps: Plan = ()
    if isinstance(layout.switch, Across):
        steps += layout.switch.folders(layout.wiring)
    for wiring in layout.wirings:
        made = ENVIRONMENTS[wiring.at.environment].create(wiring.at, switch_needs(layout, wiring))
        steps += on_host(made, wiring.at.host)
    for part in layout.parts:
        if own_kernel(layout, part):
            continue
        created = node_of(layout, part)
        # Nodes share a daemon or a root: each of them says it, and it is made once.
        steps += tuple(step for step in created if step not in steps)
    return steps


def node_of(layout: Layout, part: Part) -> Plan:
    """Return the steps that make the node of a part."""
    node = layout.nodes[part.id]
    return on_host(ENVIRONMENTS[node.environment].create(node, needs_of(layout, part)), node.host)


def _confined(layout: Layout, part: Part, start: Plan) -> Plan:
    """Return the start of a part's program under the limit of functions; in a virtual machine it is
    that of the machine."""
    if part.physical or own_kernel(layout, part):
        return start
    return _limited(layout, "function", layout.nodes[part.id], start)


def _limited(layout: Layout, who: str, node: Node, steps: Plan) -> Plan:
    """Return the steps with their processes under the CPU limit of the switch or of a function."""
    percent = layout.test.limits.get(who)
    where = ENVIRONMENTS[node.environment]
    ours = where.shares_host or where.own_kernel
    if percent is None or not ours:
        return steps
    folder, made = limited_group(layout.cgroups, node.name, percent)
    made = on_host(made, node.host)
    within = (tool_program(), "in-cgroup", folder, "--")
    return made + tuple(
        replace(step, within=within) if isinstance(step, Spawn) else step for step in steps
    )


def join(layout: Layout) -> Plan:
    """Return the steps that wait for the sockets of functions that the switch connects to, and join
    them. There are none where virtual machines, which start only then, have been joined."""
    return () if _vms_await_switch(layout) else _join(layout)


def _join(layout: Layout) -> Plan:
    hosted = [(part,) for part, *_ in hosted_parts(layout)]
    programs = [*(parts for _, parts in processes_of(layout)), *hosted]
    paths = [
        (layout.nodes[parts[0].id].host, layout.endpoints[parts[0].ports[0].id].path)
        for parts in programs
        if awaits_switch(layout, parts)
    ]
    if _vms_await_switch(layout):
        # What else the switch connects to listens later: it is tried again.
        paths = [
            (layout.nodes[part.id].host, layout.endpoints[port.id].path)
            for part in parts_in_vms(layout)
            for port in part.ports
        ]
    listening: Plan = ()
    for host, path in paths:
        there = Check(("test", "-S", path), at=replace(HOST, host=host))
        listening += (Wait(f"the function listens on {path}", there),)
    return listening + layout.switch.join(layout.wiring)


def _vms_await_switch(layout: Layout) -> bool:
    """Say whether virtual machines start only when the switch has connected to their ports."""
    ends = [layout.endpoints[port.id] for part in parts_in_vms(layout) for port in part.ports]
    return any(end.kind is PortKind.VHOST_USER and end.server for end in ends)


def settled(layout: Layout) -> Plan:
    """Return the steps that wait until the switch has its links, and functions forward."""
    steps = layout.switch.settled(layout.wiring)
    for _, function, hosted in hosted_parts(layout):
        steps += function.settled(hosted)
    return steps


def awaits_switch(layout: Layout, parts: Sequence[Part]) -> bool:
    """Say whether the first port of a process is opened only when the switch connects to it."""
    end = layout.endpoints[parts[0].ports[0].id]
    ours = not own_kernel(layout, parts[0])  # in a machine it is an interface of the guest's
    return ours and end.kind is PortKind.VHOST_USER and end.server and not end.backend


def part_counters(layout: Layout) -> tuple[Run, ...]:
    """Return the commands that print the links in each part's node, to tell where frames were
    dropped."""
    nodes = dict.fromkeys(stack_of(layout, part) for part in layout.parts)
    return tuple(
        Run(f"counters of the links at {node.name}", READ_LINKS, node, about=node.name)
        for node in nodes
        if any(layout.endpoints[p.id].ifname for part in layout.parts for p in part.ports)
    )
