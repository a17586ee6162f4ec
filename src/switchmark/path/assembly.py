"""The plan of a path, from nothing to forwarding functions, in the order of execution, and the
needs of its nodes. This module is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from switchmark.engines.base import traffic_program
from switchmark.environments import network_stack
from switchmark.environments.base import Attachment, Environment, Needs, Neighbour
from switchmark.hosts.programs import beside_python, installation_of, tool_program
from switchmark.model.addresses import Addressing
from switchmark.model.cgroups import limited_group
from switchmark.model.cpus import cpu_mask, format_cpus
from switchmark.model.event import RESTART, Event, moments_s
from switchmark.model.plan import (
    HOST,
    Check,
    Node,
    Plan,
    Reserve,
    Run,
    Spawn,
    Step,
    Wait,
    Write,
    fenced,
    on_host,
)
from switchmark.model.topology import Endpoint, Port, PortKind, guest_devices
from switchmark.path.hosts import itself, mac_of_uplink, side_name
from switchmark.path.images import image_steps
from switchmark.path.path import Instance, Part, Path, awaits_switch
from switchmark.switches.base import with_program
from switchmark.switches.changes import Change
from switchmark.switches.links import READ_LINKS

_SWITCH_CAPABILITIES = frozenset({"NET_ADMIN", "NET_RAW", "SYS_NICE"})
_TUN = "/dev/net/tun"
_GUEST_MB = 256
_GUEST_OF_DPDK_MB = 192  # a DPDK function in the guest uses up to 168 MB of it


def build(path: Path) -> Plan:
    """Return the whole plan: `construct`, then `join` while the ports are being opened, and
    `settled` when they are open."""
    return construct(path) + join(path) + settled(path)


def construct(path: Path) -> Plan:
    """Return the steps from nothing to programs that wait for commands."""
    steps = create_nodes(path)
    home = path.wiring.node
    switch = fenced(start_switches(path))
    steps += _limited(path, "switch", home, path.drivers.switch_environment, switch)
    steps += _spread(path)
    for part in path.in_vms:
        # A machine starts with its ports already in it.
        steps += _limited(path, "function", part.node, part.environment, vm_of(path, part))
    if _vms_await_switch(path):
        steps += _join(path)
    for part in path.parts:
        attached = part.environment.attach(part.node, attachments_of(path, part))
        steps += on_host(attached, part.node.host)
    for player in path.processes:
        first, node = player.parts[0], player.node
        prepared = first.engine.prepare(first.switch.wiring, node, player.endpoints)
        steps += on_host(prepared, node.host)
        steps += _confined(path, first, first.function.start(player.hosted))
    for part in path.hosted:
        steps += _confined(path, part, part.function.start(part.hosted))
    # Hugepages come first, so that they are released last: a program in a container may live until
    # the container is removed.
    ordered = sorted(steps, key=lambda step: not isinstance(step, Reserve))
    return tuple(_of_machine(path, step) for step in ordered)


def _of_machine(path: Path, step: Step) -> Step:
    """Return a step. If both hosts are this machine, a step that reserves hugepages applies to this
    machine, so that every host has its share."""
    if (
        isinstance(step, Reserve)
        and path.found.between.one_machine
        and not path.found.between.foreign
    ):
        return replace(step, at=HOST)
    return step


def vm_of(path: Path, part: Part) -> Plan:
    """Return the steps that start the virtual machine of a part; none for another environment."""
    return node_of(path, part) if part.separate_kernel else ()


def create_nodes(path: Path) -> Plan:
    """Return the steps that create the nodes of the switches and the parts, except virtual
    machines."""
    steps = _folders(path)
    for switch in path.switches:
        node_plan = switch.environment.create(switch.wiring.node, switch_needs(path, switch))
        steps += on_host(node_plan, switch.host)
        steps += _images(path, switch)
    for part in path.parts:
        if part.separate_kernel:
            continue
        created = node_of(path, part)
        # Nodes share a daemon or a root directory. Every node lists it, but it is created once.
        steps += tuple(step for step in created if step not in steps)
    return steps


def _images(path: Path, switch: Instance) -> Plan:
    """Return the steps that provide the programs of container images: of the switch, and of the
    versions that events start."""
    drivers = (switch.driver, *path.drivers.next_switches.values())
    wirings = (with_program(switch.wiring, driver, path.found.programs) for driver in drivers)
    images = {wiring.version.image.key: wiring for wiring in wirings if wiring.version.image}
    steps = (image_steps(wiring, path.found.modes) for wiring in images.values())
    return tuple(step for plan in steps for step in on_host(plan, switch.host))


def node_of(path: Path, part: Part) -> Plan:
    """Return the steps that create the node of a part."""
    return on_host(part.environment.create(part.node, needs_of(path, part)), part.node.host)


def start_switches(path: Path) -> Plan:
    """Return the steps that start the switch. With two hosts, include the cables between them."""
    return _cables(path) + tuple(step for switch in path.switches for step in switch.start)


def _folders(path: Path) -> Plan:
    """Return the steps that create a folder for the run on both hosts."""
    remove = 'rm -rf "$1"; rmdir --ignore-fail-on-non-empty "${1%/*}"'
    return tuple(
        Run(
            f"the run's folder on {half.node.host}",
            ("mkdir", "-p", "-m", "700", half.run_dir, half.ports_dir, half.switch_dir),
            at=itself(half),
            undo=("sh", "-c", remove, "sh", half.run_dir),
        )
        for half in (switch.wiring for switch in path.switches if not switch.alone)
    )


def _cables(path: Path) -> Plan:
    """Return the steps that create the cables between two hosts: veth pairs with one end per host.
    The plan finds the network namespace of a host through a process in it."""
    uplinks = [uplink for uplink in path.uplinks if uplink.made]
    if not uplinks:
        return ()
    halves = [switch.wiring for switch in path.switches]
    prefix = path.wiring.prefix
    steps: Plan = ()
    for side, half in enumerate(halves):
        network, process = (f"{prefix}-{side_name(side)}-{kind}" for kind in ("net", "pid"))
        find = 'lsns -n -r -t net -o NS,PID | sed -n "s/^$1 //p"'
        steps += (
            Run(
                f"the network of {half.node.host}, by its number",
                ("stat", "-L", "-c", "%i", "/proc/self/ns/net"),
                at=itself(half),
                save=network,
            ),
            Run(
                f"a process in the network of {half.node.host}",
                ("sh", "-c", find, "sh", f"${{{network}}}"),
                save=process,
            ),
        )
    pids = [f"${{{prefix}-{side_name(side)}-pid}}" for side in (0, 1)]
    ups = (switch.uplinks for switch in path.switches)
    for uplink, *ports in zip(uplinks, *ups, strict=True):
        ends = [
            (
                *(name, "mtu", str(path.wiring.mtu), "address", mac_of_uplink(half, port)),
                *("netns", pid),
            )
            for half, port, pid, name in zip(halves, ports, pids, uplink.ends, strict=True)
        ]
        undo = ("ip", "link", "del", uplink.ends[0])
        why = f"cable {uplink.name} from {halves[0].node.host} to {halves[1].node.host}"
        steps += (
            Run(f"{why} will go with the run", ("true",), at=itself(halves[0]), undo=undo),
            Run(
                why,
                ("ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]),
            ),
        )
    return steps


def _spread(path: Path) -> Plan:
    """Return the steps that spread the frames from the switch's ports over its CPUs, by flow. NICs
    of the host are spread where they are lent (`runs.nics.spread`).

    The kernel does the work of a switch without threads. Behind a veth pair, it does so on the
    sender's CPU, unless RPS (receive packet steering) spreads the frames of an interface over
    several CPUs by flow.
    """
    wiring = path.wiring
    if not path.is_spread or not wiring.cores:
        return ()
    names = [end.switch_ifname for port, end in path.ends if not port.nic]
    return tuple(
        Write(
            f"flows that come in at {name} are worked on by CPU {format_cpus(wiring.cores)}",
            f"/sys/class/net/{name}/queues/rx-0/rps_cpus",
            cpu_mask(wiring.cores).encode(),
            at=network_stack(wiring.node),
        )
        for name in names
    )


def _confined(path: Path, part: Part, start: Plan) -> Plan:
    """Return the start of a part's program under the CPU limit of functions. In a virtual machine,
    the limit applies to the machine instead."""
    if part.physical or part.separate_kernel:
        return start
    return _limited(path, "function", part.node, part.environment, start)


def _limited(path: Path, who: str, node: Node, where: Environment, steps: Plan) -> Plan:
    """Return the steps with their processes under the CPU limit of the switch or of a function, in
    a node of an environment."""
    percent = path.test.limits.get(who)
    from_host = where.shares_host or where.separate_kernel
    if percent is None or not from_host:
        return steps
    folder, group_steps = limited_group(path.cgroups, node.name, percent)
    group_steps = on_host(group_steps, node.host)
    within = (tool_program(), "in-cgroup", folder, "--")
    return group_steps + tuple(
        replace(step, within=within) if isinstance(step, Spawn) else step for step in steps
    )


def join(path: Path) -> Plan:
    """Return the steps that wait for the sockets of functions and connect the switch to them. They
    are empty if `construct` has already joined the ports for virtual machines."""
    return () if _vms_await_switch(path) else _join(path)


def _join(path: Path) -> Plan:
    programs = [*(player.parts for player in path.processes), *((part,) for part in path.hosted)]
    sockets = [
        (parts[0].node.host, parts[0].endpoints[0].path)
        for parts in programs
        if awaits_switch(parts)
    ]
    if _vms_await_switch(path):
        # Other sockets open later, and the switch retries its connections.
        sockets = [(part.node.host, end.path) for part in path.in_vms for end in part.endpoints]
    listening: Plan = ()
    for host, socket in sockets:
        there = Check(("test", "-S", socket), at=replace(HOST, host=host))
        listening += (Wait(f"the function listens on {socket}", there),)
    return listening + tuple(step for switch in path.switches for step in switch.join)


def _vms_await_switch(path: Path) -> bool:
    """Return whether virtual machines wait for the switch to connect to their ports."""
    ends = [end for part in path.in_vms for end in part.endpoints]
    return any(end.kind is PortKind.VHOST_USER and end.server for end in ends)


def settled(path: Path) -> Plan:
    """Return the steps that wait until the links of the switch are up and functions forward."""
    steps = tuple(step for switch in path.switches for step in switch.settled)
    for part in path.hosted:
        steps += part.function.settled(part.hosted)
    return steps


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event of a trial, with its steps."""

    event: Event
    """The event."""
    at_s: float
    """Its moment, in seconds from the start of the measured phase."""
    change: Change
    """The steps that disturb the switch, and those that bring it back."""
    settled: Plan
    """The Waits until the switch has its links."""
    version: str = ""
    """The probed version that an upgrade starts; empty for another event."""


def events_of(path: Path) -> tuple[PlannedEvent, ...]:
    """Return the events of a trial in order. Raise KeyError for an event that the switch does not
    have; `refusals.check` refuses such a test."""
    (switch, *_), events = path.switches, path.test.events
    plans = switch.driver.events(switch.wiring) if events else {}
    planned = []
    for event, at_s in zip(events, moments_s(events, path.test.duration), strict=True):
        if event.to:
            change, version = _upgrade(path, plans[RESTART], event.to)
        else:
            change, version = plans[event.kind], ""
        planned.append(
            PlannedEvent(event, at_s, _again(path, change), switch.settled_again, version)
        )
    return tuple(sorted(planned, key=lambda planned_event: planned_event.at_s))


def _upgrade(path: Path, restart: Change, name: str) -> tuple[Change, str]:
    """Return the steps that end the switch and start a version of it, and that version as it was
    probed; empty before a probe."""
    (switch, *_), driver = path.switches, path.drivers.next_switches[name]
    wiring = with_program(switch.wiring, driver, path.found.programs)
    started = driver.events(wiring)[RESTART]
    probed = path.found.programs.get((wiring.node.host, name))
    return Change(restart.disturb, started.restore), probed.text if probed else ""


def _again(path: Path, change: Change) -> Change:
    """Return an event with the processes of its switch under the CPU limit of the first ones."""
    (switch, *_) = path.switches
    limited = _limited(
        path, "switch", switch.wiring.node, path.drivers.switch_environment, change.restore
    )
    count = len(change.restore)
    return Change(switch.at_host(change.disturb), switch.at_host(limited[-count:]))


def part_counters(path: Path) -> Mapping[Node, Run]:
    """Return the commands that print the links of the parts, by the node that they run in. Their
    counters show where frames were dropped."""
    if not any(end.ifname for _, end in path.ends):
        return {}
    nodes = dict.fromkeys(network_stack(part.node) for part in path.parts)
    return {
        node: Run(f"counters of the links at {node.name}", READ_LINKS, node, subject=node.name)
        for node in nodes
    }


# -- what nodes need ---------------------------------------------------------------------------


def vm_megabytes(path: Path) -> int:
    """Return the memory of all virtual machines of this test."""
    return sum(needs_of(path, part).megabytes for part in path.in_vms)


def attachments_of(path: Path, part: Part) -> list[Attachment]:
    """Return the endpoints to bring into the node of a part."""
    return [_attachment(path, part, port, end) for port, end in part.ends if not end.found]


def _attachment(path: Path, part: Part, port: Port, end: Endpoint) -> Attachment:
    address, neighbours = None, []
    if path.engine.needs_ip and not end.addressed:
        for flow in path.flows:
            a = flow.addressing
            if flow.source == port.id:
                address = f"{a.source_ip}/{a.prefix}"
                neighbours.append(Neighbour(a.sink_ip, a.sent_dst_mac, a.gateway))
            elif flow.sink == port.id:
                # The way back, for answers and announcements, mirrors the forward way.
                address = f"{a.sink_ip}/{a.prefix}"
                via = None if a.gateway is None else _gateway_of(a.sink_ip, a)
                neighbours.append(Neighbour(a.source_ip, a.seen_src_mac, via))
    return Attachment(
        end,
        part.node if end.in_place else part.switch.wiring.node,
        address=address,
        neighbours=tuple(dict.fromkeys(neighbours)),
    )


def _gateway_of(ip: str, a: Addressing) -> str:
    """Return the router's address in the sink's network, with the host number that it has in the
    source's /24 network."""
    assert a.gateway is not None
    return f"{ip.rsplit('.', 1)[0]}.{a.gateway.rsplit('.', 1)[1]}"


def switch_needs(path: Path, switch: Instance) -> Needs:
    """Return the needs of the switch's node. They include the folders of the switch's program, and
    of programs that it starts by path, as in builds by users."""
    wiring = switch.wiring
    folders = [_program_folder(path, wiring.node)]
    if wiring.node.host not in path.found.between.programs:
        folders.insert(0, str(beside_python()))
    installation = installation_of(wiring.version.program)
    if installation is not None and str(PurePath(wiring.version.program).parent) not in folders:
        folders.append(installation)
    started = (step for step in start_switches(path) if isinstance(step, Spawn))
    folders += [str(PurePath(step.argv[0]).parent) for step in started]
    return Needs(
        folders=(wiring.ports_dir, wiring.switch_dir),
        programs=tuple(folders),
        capabilities=_SWITCH_CAPABILITIES | switch.driver.capabilities,
        devices=(_TUN, *switch.driver.devices),
        hugepages=path.engine.user_memory and wiring.memory.huge,
        cpu_limit=path.test.limits.get("switch"),
        mode=path.found.modes.get(wiring.node.environment),
    )


def needs_of(path: Path, part: Part) -> Needs:
    """Return the needs of a part's node."""
    wiring, engine = part.switch.wiring, part.engine
    if part.function.played:
        extra_mb = engine.vm_megabytes(path.wiring, part.endpoints)
    else:
        extra_mb = _GUEST_OF_DPDK_MB if guest_devices(part.endpoints) else 0
    return Needs(
        folders=(wiring.ports_dir,),
        programs=(_program_folder(path, part.node),),
        megabytes=_GUEST_MB + extra_mb,
        capabilities=_capabilities(path, part),
        devices=tuple(dict.fromkeys((*engine.devices, *part.function.devices))),
        hugepages=engine.user_memory and wiring.memory.huge,
        cpu_limit=None if part.physical else path.test.limits.get("function"),
        cpus=part.cpus,
        image=part.node.image,
        attachments=tuple(attachments_of(path, part)),
        mode=path.found.modes.get(part.node.environment),
    )


def _program_folder(path: Path, node: Node) -> str:
    """Return the folder of the traffic program on the host of a node."""
    return str(PurePath(path.found.between.programs.get(node.host, traffic_program())).parent)


def _capabilities(path: Path, part: Part) -> frozenset[str]:
    """Return the capabilities of a part's node: those of its function and, for a part that the
    traffic program plays, those of its engine."""
    if not part.function.played:
        return part.function.capabilities
    return part.engine.granted(part.kinds, path.test.driver) | part.function.capabilities
