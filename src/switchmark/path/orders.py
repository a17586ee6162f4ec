"""This module writes what the traffic program is told of a test: its ports, threads, tasks, and
what each task sends and expects. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.engines.base import Engine
from switchmark.model.addresses import ip6_address, tunnelled
from switchmark.model.objects import Message
from switchmark.model.record import TrialSpec
from switchmark.model.topology import Flow, Part, Port, PortKind, Role, Semantics
from switchmark.model.units import LAYER_2_BYTES
from switchmark.path.layout import UDP_PORT, Layout, frame_sizes
from switchmark.path.needs import netns_of
from switchmark.path.placement import Placement
from switchmark.path.roles import engine_of, own_kernel, place_of, rewrites_of
from switchmark.path.sharing import RX_BURST
from switchmark.path.subflows import first_subflow, has_subflows, subflows_of
from switchmark.path.tasks import Job, distinct, jobs_of, opened_by

_BROADCAST_MAC, _BROADCAST_IP = "ff:ff:ff:ff:ff:ff", "255.255.255.255"
_VNI = 100  # of a VXLAN tunnel
_TTL = 64  # of a frame as it is sent (`traffic/src/frames.h`)


def opening_of(layout: Layout, placement: Placement, parts: Sequence[Part]) -> Message:
    """Return what a process that plays these parts opens: its ports, and the threads with their
    tasks."""
    played = [port for part in parts for port in part.ports]
    endpoints = [layout.endpoints[port.id] for port in played]
    opened = opened_by(layout, parts)
    ports = [
        {
            **_port(layout, part, port, alone=len(parts) == 1),
            "queue": queue,
            "options": engine_of(layout, part).port_options(
                layout.wiring_of(part),
                place_of(layout, part),
                endpoints,
                played.index(port),
                layout.test.driver,
            ),
        }
        for part, port, queue in opened
    ]
    tasks = [
        [
            {
                "role": job.role.value,
                "ports": [opened.index((part, port, job.queue)) for port in part.ports],
            }
            for job in jobs_of(layout, part)
        ]
        for part in parts
    ]
    if layout.together:
        tasks = [[task for some in tasks for task in some]]
    threads = [
        {**_pin(layout, placement, part), "tasks": some}
        for part, some in zip(parts, tasks, strict=False)
    ]
    return {"ports": ports, "threads": threads}


def _port(layout: Layout, part: Part, port: Port, *, alone: bool) -> Message:
    test, endpoint = layout.test, layout.endpoints[port.id]
    engine = engine_of(layout, part)
    opened: Message = {
        "engine": engine.name,
        "ifname": endpoint.ifname,
        "burst": max(test.burst, RX_BURST),
        "frame_bytes": _frame_bytes(layout, engine),
        "flows": test.flow_numbers if layout.sent_by(part) else 1,
    }
    if engine.needs_ip:
        # With several flows answers and arrivals come from, or go to, other ports too.
        opened |= {**_addresses(layout, port), "connected": test.flow_numbers == 1}
    if endpoint.kind is PortKind.NETMAP:  # each network has switches of its own
        opened["netns"] = netns_of(layout.wiring_of(part).at) or ""
    elif not alone:
        opened["netns"] = netns_of(layout.nodes[part.id]) or ""
    return opened


def _frame_bytes(layout: Layout, engine: Engine) -> int:
    """Return the longest frame that a port is opened for: the longest of the path where it cannot
    be opened anew for each test, as a switch would lose its link."""
    if engine.own_memory:
        return layout.wiring.mtu + LAYER_2_BYTES
    return max(frame_sizes(layout.test))


def _addresses(layout: Layout, port: Port) -> Message:
    for flow in layout.flows:
        a = layout.addressing[flow.id]
        if port.id in (flow.source, flow.sink):
            own, peer = a.source_ip, a.sink_ip
            if port.id == flow.sink:
                own, peer = peer, own
            return {
                "local_ip": own,
                "remote_ip": peer,
                "local_port": UDP_PORT,
                "remote_port": UDP_PORT,
            }
    return {}


def _pin(layout: Layout, placement: Placement, part: Part) -> Message:
    pin, cores = placement.pins[part.id], layout.test.function_cores
    if own_kernel(layout, part):  # whose only CPU is pinned as a whole
        return {"cpu": 0, "yield": True}
    if cores > 1:
        cpus = {"cpus": [pin.cpus[core % len(pin.cpus)] for core in range(cores)]}
        return {"cores": cores, **(cpus if pin.cpus else {}), "yield": pin.yield_}
    pinned = {"cpu": pin.cpus[0]} if len(pin.cpus) == 1 else {}
    return {**pinned, "yield": pin.yield_}


def load_of(layout: Layout, players: Sequence[Part], job: Job, spec: TrialSpec) -> Message:
    """Return what a task does in a trial; `players` are all parts that the traffic program
    plays."""
    test, part, role = layout.test, job.part, job.role
    # Nobody but a switch that learns listens to who is where.
    learning = layout.wiring.semantics is Semantics.LEARNING
    if role is Role.FORWARDER:
        forward: Message = {
            "burst": RX_BURST,
            "rewrite": rewrites_of(layout, part),
        }
        if learning:
            forward |= _announcing(layout, part.ports)
        return forward
    sends = role in (Role.SENDER, Role.CLIENT)
    flows = distinct(layout.sent_by(part) if sends else layout.received_by(part))
    load: Message = {
        "first_flow": layout.first_flow(flows[0]) + job.first,
        "flows": job.flows,
        "burst": test.burst if sends else RX_BURST,
    }
    if sends:
        load |= {
            "rate_pps": (spec.rate_pps or 0.0) * job.flows / (len(flows) * test.flow_numbers),
            "frames": _share_of(spec.frames, job, len(flows) * test.flow_numbers),
            "frame_bytes": list(frame_sizes(test)),
            "address": [_address(layout, flow, job.first) for flow in flows],
            "stagger": _stagger(layout, players, job),
        }
        load |= _flows_of(layout, job)
        if test.arrivals != "burst":
            load |= {"arrivals": test.arrivals, "seed": test.seed}
    if role in (Role.RECEIVER, Role.CLIENT):
        load["latency"] = test.touch != "none"
        load["ipdv"] = test.dimension == "latency"
    if role is not Role.SENDER and learning:
        load |= _announcing(layout, part.ports[:1])
    return load


def _stagger(layout: Layout, players: Sequence[Part], job: Job) -> float:
    """Return the share of a period by which a task's bursts are due after those of the first
    sender: at a fixed rate they take turns, as all at one moment would be one burst at the
    switch."""
    jobs = [one for part in players for one in jobs_of(layout, part)]
    senders = [one for one in jobs if one.role in (Role.SENDER, Role.CLIENT)]
    return senders.index(job) / len(senders)


def _address(layout: Layout, flow: Flow, share: int) -> Message:
    """Return the addresses of a sender's first flow; `share` is its number among the part's."""
    test, a = layout.test, layout.addressing[flow.id]
    first = layout.first_flow(flow) + share
    address: Message = {
        "src_mac": a.sent_src_mac,
        "dst_mac": a.sent_dst_mac,
        "src_ip": a.source_ip,
        "dst_ip": a.sink_ip,
        "src_port": UDP_PORT + (0 if test.flows_by != "port" or has_subflows(test) else share),
        "dst_port": UDP_PORT,
    }
    # Addresses that vary begin where no port has its own.
    if has_subflows(test):
        address |= first_subflow(test, flow.index)
    elif test.flows > 1 and test.flows_by == "mac":
        address["src_mac"] = f"02:53:4d:80:{first >> 8:02x}:{first & 255:02x}"
    elif test.flows > 1 and test.flows_by == "ip":
        address["src_ip"] = f"198.19.{first >> 8}.{first & 255}"
    if test.tag is not None:
        address["vlan"] = test.tag
    if test.tunnel is not None:
        inside = {"vni": _VNI, **tunnelled(flow.index)}
        address["vxlan"] = _of_version(test.ip_version, inside)
    return _of_version(test.outer_ip_version, address)


def expected_of(layout: Layout, job: Job) -> Message:
    """Return the headers that a receiver's frames are to have."""
    part = job.part
    answers = job.role is Role.CLIENT
    if not (answers or job.role is Role.RECEIVER):
        return {}
    flows = distinct(layout.sent_by(part) if answers else layout.received_by(part))
    originals = [layout.copies(flow)[0] for flow in flows]
    expect: Message = {"address": [_seen(layout, flow, answers) for flow in originals]}
    if layout.test.flows_by != "mac" or not _writes_macs(layout, originals[0]):
        expect |= _flows_of(layout, job, answers=answers)
    return {"latency": False, "ipdv": False, "expect": expect}


def _flows_of(layout: Layout, job: Job, *, answers: bool = False) -> Message:
    """Return how the headers of a task's frames differ; those of answers in their other end."""
    test = layout.test
    if has_subflows(test):
        return {"subflows": subflows_of(test, job.first, several=job.flows, answers=answers)}
    return {"vary": [f"{'dst' if answers else 'src'}_{test.flows_by}"]} if test.flows > 1 else {}


def _writes_macs(layout: Layout, flow: Flow) -> bool:
    return layout.addressing[flow.id].rewritten


def _seen(layout: Layout, flow: Flow, answered: bool) -> Message:
    """Return the addresses of a flow's first frames where they arrive; or of their answers, which
    are reflected and come back as they went."""
    sent, a = _address(layout, flow, 0), layout.addressing[flow.id]
    if not answered:
        macs = {"src_mac": a.seen_src_mac, "dst_mac": a.seen_dst_mac} if a.rewritten else {}
        return {**sent, **macs, "ttl": _TTL - a.routed}
    macs = {"dst_mac": a.sent_src_mac} if a.rewritten else {}
    # The kernel of a server makes the headers of its answers anew.
    crossed = 1 if layout.engine.needs_ip else 2
    return {**_turned(sent), **macs, "ttl": _TTL - crossed * a.routed}


def _turned(address: Message) -> Message:
    """Return the addresses of a frame's answer, those in a tunnel too."""
    turned = {**address}
    for what in ("mac", "ip", "ip6", "port"):
        if f"src_{what}" in address:
            turned[f"src_{what}"] = address[f"dst_{what}"]
            turned[f"dst_{what}"] = address[f"src_{what}"]
    if "vxlan" in address:
        turned["vxlan"] = _turned(address["vxlan"])
    return turned


def _announcing(layout: Layout, ports: Sequence[Port]) -> Message:
    """Return what tells a switch that learns where ports are. In a phase a port is announced again
    to where the frames that come to it are from, so that it is forwarded by one way: not to ports
    that nothing comes to, which send."""
    sources = {sink: (source, a.sent_src_mac) for (source, sink), a in layout.crossings.items()}
    varied = {flow.source: _address(layout, flow, 0)["src_mac"] for flow in reversed(layout.flows)}
    again = [
        varied.get(sources[port.id][0], sources[port.id][1]) if port.id in sources else None
        for port in ports
    ]
    return {
        "announce": [_announcement(layout, port) for port in ports],
        "announce_again": again,
    }


def _announcement(layout: Layout, port: Port) -> Message:
    flow = next(f for f in layout.flows if port.id in (f.sink, f.source, *f.hops))
    a = layout.addressing[flow.id]
    vlan = {} if layout.test.tag is None else {"vlan": layout.test.tag}
    hello = {
        "src_mac": layout.endpoints[port.id].mac,
        "dst_mac": _BROADCAST_MAC,
        "src_ip": a.sink_ip if port.id == flow.sink else a.source_ip,
        "dst_ip": _BROADCAST_IP,
        "src_port": UDP_PORT,
        "dst_port": UDP_PORT,
        **vlan,
    }
    return _of_version(layout.test.outer_ip_version, hello)


def _of_version(version: str, address: Message) -> Message:
    """Return addresses as those of a version of IP."""
    if version == "4":
        return address
    ips = {f"{end}6": ip6_address(address.pop(end)) for end in ("src_ip", "dst_ip")}
    return {**address, **ips}


def _share_of(frames: int | None, job: Job, flows: int) -> int:
    """Return a task's part of the frames of a burst; 0 where there is no such end."""
    if frames is None:
        return 0
    return frames * (job.first + job.flows) // flows - frames * job.first // flows
