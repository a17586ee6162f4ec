"""The orders for the traffic program: ports, threads and tasks, and the frames that a task sends
and expects. This module is pure."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.engines.base import Engine
from switchmark.environments import netns_of
from switchmark.model.addresses import ip6_address, tunnelled
from switchmark.model.objects import Message
from switchmark.model.record import TrialSpec
from switchmark.model.topology import Endpoint, Port, PortKind, Role, Semantics
from switchmark.model.units import LAYER_2_BYTES
from switchmark.path.path import RX_BURST, AddressedFlow, Job, Part, Path, Player
from switchmark.path.resolving import UDP_PORT, distinct, frame_sizes
from switchmark.path.subflows import first_subflow, flow_run, has_subflows, subflows_of

_BROADCAST_MAC, _BROADCAST_IP = "ff:ff:ff:ff:ff:ff", "255.255.255.255"
_VNI = 100  # the VNI of a VXLAN tunnel
_TTL = 64  # the TTL of a sent frame (`traffic/src/frames.h`)


def opening_of(path: Path, player: Player) -> Message:
    """Return the ports that a process opens, and its threads with their tasks."""
    parts, opened = player.parts, player.opened
    played = [port for part in parts for port in part.ports]
    ports = [
        {
            **_port(path, part, port, alone=len(parts) == 1),
            "queue": queue,
            "options": part.engine.port_options(
                part.switch.wiring,
                player.node,
                player.endpoints,
                played.index(port),
                path.test.driver,
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
            for job in part.jobs
        ]
        for part in parts
    ]
    if path.together:
        tasks = [[task for some in tasks for task in some]]
    threads = [
        {**_pin(path, part), "tasks": some} for part, some in zip(parts, tasks, strict=False)
    ]
    return {"ports": ports, "threads": threads}


def _port(path: Path, part: Part, port: Port, *, alone: bool) -> Message:
    test, engine = path.test, part.engine
    endpoint = part.endpoints[part.ports.index(port)]
    opened: Message = {
        "engine": engine.name,
        "ifname": endpoint.ifname,
        "burst": max(test.burst, RX_BURST),
        "frame_bytes": _frame_bytes(path, engine),
        "flows": test.flow_numbers if part.sent else 1,
    }
    if engine.needs_ip:
        # With several flows, answers and arrivals use other ports too.
        opened |= {**_addresses(path, port), "connected": test.flow_numbers == 1}
    if endpoint.kind is PortKind.NETMAP:  # every network namespace has separate netmap switches
        opened["netns"] = netns_of(part.switch.wiring.node) or ""
    elif not alone:
        opened["netns"] = netns_of(part.node) or ""
    return opened


def _frame_bytes(path: Path, engine: Engine) -> int:
    """Return the maximum frame length for a port. If the port cannot be opened again for another
    test, because the switch would lose its link, use the maximum of the path."""
    if engine.user_memory:
        return path.wiring.mtu + LAYER_2_BYTES
    return max(frame_sizes(path.test))


def _addresses(path: Path, port: Port) -> Message:
    for flow in path.flows:
        a = flow.addressing
        if port.id in (flow.source, flow.sink):
            ip, peer = a.source_ip, a.sink_ip
            if port.id == flow.sink:
                ip, peer = peer, ip
            return {
                "local_ip": ip,
                "remote_ip": peer,
                "local_port": UDP_PORT,
                "remote_port": UDP_PORT,
            }
    return {}


def _pin(path: Path, part: Part) -> Message:
    pin, cores = part.pin, path.test.function_cores
    if part.separate_kernel:  # its only CPU is pinned as a whole
        return {"cpu": 0, "yield": True}
    if cores > 1:
        cpus = {"cpus": [pin.cpus[core % len(pin.cpus)] for core in range(cores)]}
        return {"cores": cores, **(cpus if pin.cpus else {}), "yield": pin.yield_}
    pinned = {"cpu": pin.cpus[0]} if len(pin.cpus) == 1 else {}
    return {**pinned, "yield": pin.yield_}


def load_of(path: Path, part: Part, job: Job, spec: TrialSpec) -> Message:
    """Return the load of a task in a trial."""
    test, role = path.test, job.role
    # Announcements only matter to a switch that learns.
    learning = path.wiring.semantics is Semantics.LEARNING
    if role is Role.FORWARDER:
        forward: Message = {
            "burst": RX_BURST,
            "rewrite": list(part.rewrites),
        }
        if learning:
            forward |= _announcing(path, part.ends)
        return forward
    sends = role in (Role.SENDER, Role.CLIENT)
    flows = distinct(part.sent if sends else part.received)
    load: Message = {
        "first_flow": path.first_flow(flows[0]) + job.first,
        "flows": job.flows,
        "burst": test.burst if sends else RX_BURST,
    }
    if sends:
        load |= {
            "rate_pps": (spec.rate_pps or 0.0) * job.flows / (len(flows) * test.flow_numbers),
            "frames": _share_of(spec.frames, job, len(flows) * test.flow_numbers),
            "frame_bytes": list(frame_sizes(test)),
            "address": [_address(path, flow, job.first) for flow in flows],
            "stagger": _stagger(path, part, job),
        }
        load |= _flows_of(path, job)
        if test.arrivals != "burst":
            load |= {"arrivals": test.arrivals, "seed": test.seed}
    if role in (Role.RECEIVER, Role.CLIENT):
        load["latency"] = test.touch != "none"
        load["ipdv"] = test.dimension == "latency"
    if role is not Role.SENDER and learning:
        load |= _announcing(path, part.ends[:1])
    return load


def _stagger(path: Path, part: Part, job: Job) -> float:
    """Return the delay of a task's bursts after those of the first sender, as a share of a period.
    At a fixed rate, the senders take turns: simultaneous bursts would reach the switch as one
    burst."""
    senders = [
        (played, one)
        for player in path.processes
        for played in player.parts
        for one in played.jobs
        if one.role in (Role.SENDER, Role.CLIENT)
    ]
    return senders.index((part, job)) / len(senders)


def _address(path: Path, flow: AddressedFlow, share: int) -> Message:
    """Return the addresses of a sender's first flow. `share` is its number among the part's
    flows."""
    test, a = path.test, flow.addressing
    first = path.first_flow(flow) + share
    address: Message = {
        "src_mac": a.sent_src_mac,
        "dst_mac": a.sent_dst_mac,
        "src_ip": a.source_ip,
        "dst_ip": a.sink_ip,
        "src_port": UDP_PORT + (0 if test.flows_by != "port" or has_subflows(test) else share),
        "dst_port": UDP_PORT,
    }
    # Varied addresses begin outside the range of the ports' addresses.
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


def expected_of(path: Path, part: Part, job: Job) -> Message:
    """Return the headers that a receiver expects."""
    answers = job.role is Role.CLIENT
    if not (answers or job.role is Role.RECEIVER):
        return {}
    flows = distinct(part.sent if answers else part.received)
    originals = [path.copies(flow)[0] for flow in flows]
    expect: Message = {"address": [_seen(path, flow, answers) for flow in originals]}
    if path.test.flows_by != "mac" or not originals[0].addressing.rewritten:
        expect |= _flows_of(path, job, answers=answers)
    if path.engine.packet_frames > 1:
        expect["identified"] = True
    return {"latency": False, "ipdv": False, "expect": expect}


def _flows_of(path: Path, job: Job, *, answers: bool = False) -> Message:
    """Return how the headers of a task's frames vary. Answers vary at their destination."""
    test = path.test
    if test.flows == 1:
        return {}
    run = flow_run(test, path.engine)
    runs = {"flow_run": run} if run > 1 else {}
    if has_subflows(test):
        subflows = subflows_of(test, job.first, several=job.flows, answers=answers)
        return {"subflows": subflows, **runs}
    return {"vary": [f"{'dst' if answers else 'src'}_{test.flows_by}"], **runs}


def _seen(path: Path, flow: AddressedFlow, answered: bool) -> Message:
    """Return the addresses of a flow's first frames on arrival, or those of the answers, which
    return the same way."""
    sent, a = _address(path, flow, 0), flow.addressing
    if not answered:
        macs = {"src_mac": a.seen_src_mac, "dst_mac": a.seen_dst_mac} if a.rewritten else {}
        return {**sent, **macs, "ttl": _TTL - a.routed}
    macs = {"dst_mac": a.sent_src_mac} if a.rewritten else {}
    # A server's kernel creates new headers for its answers.
    crossed = 1 if path.engine.needs_ip else 2
    return {**_turned(sent), **macs, "ttl": _TTL - crossed * a.routed}


def _turned(address: Message) -> Message:
    """Return the addresses of the answer to a frame, also inside a tunnel."""
    turned = {**address}
    for field in ("mac", "ip", "ip6", "port"):
        if f"src_{field}" in address:
            turned[f"src_{field}"] = address[f"dst_{field}"]
            turned[f"dst_{field}"] = address[f"src_{field}"]
    if "vxlan" in address:
        turned["vxlan"] = _turned(address["vxlan"])
    return turned


def _announcing(path: Path, ends: Sequence[tuple[Port, Endpoint]]) -> Message:
    """Return the announcements of ports to a switch that learns. During a phase, a receiving port
    repeats its announcement to the source MAC of its frames, so that the switch forwards it to one
    port instead of flooding it. A port that receives no frames does not repeat it: the frames that
    it sends are enough for the switch."""
    sources = {sink: (source, a.sent_src_mac) for (source, sink), a in path.crossings.items()}
    varied = {flow.source: _address(path, flow, 0)["src_mac"] for flow in reversed(path.flows)}
    again = [
        varied.get(sources[port.id][0], sources[port.id][1]) if port.id in sources else None
        for port, _ in ends
    ]
    return {
        "announce": [_announcement(path, port, end) for port, end in ends],
        "announce_again": again,
    }


def _announcement(path: Path, port: Port, end: Endpoint) -> Message:
    flow = next(f for f in path.flows if port.id in (f.sink, f.source, *f.hops))
    a = flow.addressing
    vlan = {} if path.test.tag is None else {"vlan": path.test.tag}
    hello = {
        "src_mac": end.mac,
        "dst_mac": _BROADCAST_MAC,
        "src_ip": a.sink_ip if port.id == flow.sink else a.source_ip,
        "dst_ip": _BROADCAST_IP,
        "src_port": UDP_PORT,
        "dst_port": UDP_PORT,
        **vlan,
    }
    return _of_version(path.test.outer_ip_version, hello)


def _of_version(version: str, address: Message) -> Message:
    """Return addresses in the given IP version."""
    if version == "4":
        return address
    ips = {f"{end}6": ip6_address(address.pop(end)) for end in ("src_ip", "dst_ip")}
    return {**address, **ips}


def _share_of(frames: int | None, job: Job, flows: int) -> int:
    """Return a task's share of the frames of a burst, or 0 without a limit."""
    if frames is None:
        return 0
    return frames * (job.first + job.flows) // flows - frames * job.first // flows
