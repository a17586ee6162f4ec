"""This module knows what the nodes of a layout need: attachments and addresses, capabilities,
memory. Pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from switchmark.engines.base import traffic_program
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Attachment, Needs, Neighbour
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.hosts.programs import beside_python, installation_of
from switchmark.model.addresses import Addressing
from switchmark.model.plan import Node, Spawn
from switchmark.model.topology import Part, Port, Wiring
from switchmark.path.layout import Layout
from switchmark.path.roles import engine_of, parts_in_vms
from switchmark.runs.pci import guest_devices

_SWITCH_CAPABILITIES = frozenset({"NET_ADMIN", "NET_RAW", "SYS_NICE"})
_TUN = "/dev/net/tun"
_GUEST_MB = 256
_GUEST_OF_DPDK_MB = 192  # a function there that is a DPDK program takes up to 168 of it


def vm_megabytes(layout: Layout) -> int:
    """Return the memory of all virtual machines that are made for this test."""
    return sum(needs_of(layout, part).megabytes for part in parts_in_vms(layout))


def netns_of(node: Node) -> str | None:
    """Return the path by which setns() enters the network namespace of a node."""
    return ENVIRONMENTS[node.environment].netns(node)


def attachments_of(layout: Layout, part: Part) -> list[Attachment]:
    """Return the endpoints that are brought into the node of a part."""
    return [_attachment(layout, part, port) for port in part.ports]


def _attachment(layout: Layout, part: Part, port: Port) -> Attachment:
    address, neighbours = None, []
    if layout.engine.needs_ip:
        for flow in layout.flows:
            a = layout.addressing[flow.id]
            if flow.source == port.id:
                address = f"{a.source_ip}/{a.prefix}"
                neighbours.append(Neighbour(a.sink_ip, a.sent_dst_mac, a.gateway))
            elif flow.sink == port.id:
                # The way back, for answers and announcements, mirrors the way there.
                address = f"{a.sink_ip}/{a.prefix}"
                via = None if a.gateway is None else _gateway_of(a.sink_ip, a)
                neighbours.append(Neighbour(a.source_ip, a.seen_src_mac, via))
    end = layout.endpoints[port.id]
    return Attachment(
        end,
        layout.nodes[part.id] if end.in_place else layout.wiring_of(part).at,
        address=address,
        neighbours=tuple(dict.fromkeys(neighbours)),
    )


def switch_needs(layout: Layout, wiring: Wiring | None = None) -> Needs:
    """Return the needs of the node of the switch, or of an instance of it: also the folder of its
    program, with what belongs to it, and those of others that it starts by their paths, as users'
    own builds are."""
    wiring = wiring or layout.wiring
    started = layout.switch.start(layout.wiring)
    folders = [_program_folder(layout, wiring.at)]
    if wiring.at.host not in layout.between.programs:
        folders.insert(0, str(beside_python()))
    own = installation_of(wiring.program)
    if own is not None and str(Path(wiring.program).parent) not in folders:
        folders.append(own)
    folders += [str(Path(step.argv[0]).parent) for step in started if isinstance(step, Spawn)]
    return Needs(
        folders=(wiring.ports_dir, wiring.own_dir),
        programs=tuple(folders),
        capabilities=_SWITCH_CAPABILITIES | layout.switch.capabilities,
        devices=(_TUN, *layout.switch.devices),
        hugepages=layout.engine.own_memory and layout.wiring.memory.huge,
        cpu_limit=layout.test.limits.get("switch"),
        mode=layout.modes.get(wiring.at.environment),
    )


def needs_of(layout: Layout, part: Part) -> Needs:
    """Return what the node of a part needs for it."""
    engine = engine_of(layout, part)
    ends = [layout.endpoints[port.id] for port in part.ports]
    if FUNCTIONS[part.function].played:
        more = engine.vm_megabytes(layout.wiring, ends)
    else:
        more = _GUEST_OF_DPDK_MB if guest_devices(ends) else 0
    return Needs(
        folders=(layout.wiring_of(part).ports_dir,),
        programs=(_program_folder(layout, layout.nodes[part.id]),),
        megabytes=_GUEST_MB + more,
        capabilities=_capabilities(layout, part),
        devices=tuple(dict.fromkeys((*engine.devices, *FUNCTIONS[part.function].devices))),
        hugepages=engine.own_memory and layout.wiring.memory.huge,
        cpu_limit=None if part.physical else layout.test.limits.get("function"),
        cpus=layout.cpus.get(part.id, ()),
        image=layout.nodes[part.id].image,
        attachments=tuple(attachments_of(layout, part)),
        mode=layout.modes.get(layout.nodes[part.id].environment),
    )


def _program_folder(layout: Layout, node: Node) -> str:
    """Return the folder of the traffic program on the host of a node."""
    return str(Path(layout.between.programs.get(node.host, traffic_program())).parent)


def _capabilities(layout: Layout, part: Part) -> frozenset[str]:
    """Return the capabilities of a part's node: those that its function takes, and the engine of
    one that the traffic program plays."""
    function = FUNCTIONS[part.function]
    if not function.played:
        return function.capabilities
    kinds = {layout.endpoints[port.id].kind for port in part.ports}
    granted = engine_of(layout, part).granted(kinds, layout.test.driver)
    return granted | function.capabilities


def stack_of(layout: Layout, part: Part) -> Node:
    """Return the node where the network stack of a part is looked at."""
    return network_stack(layout.nodes[part.id])


def _gateway_of(ip: str, a: Addressing) -> str:
    """Return the router's address in the sink's network: that of the source's, in the other /24."""
    assert a.gateway is not None
    return f"{ip.rsplit('.', 1)[0]}.{a.gateway.rsplit('.', 1)[1]}"


def network_stack(node: Node) -> Node:
    """Return the node where the network stack of a node is looked at, with the programs and files
    of the host: a namespace that has a name is entered in 3 ms, a container in 20 to 200."""
    outside = replace(node, environment="netns")
    named = ENVIRONMENTS[node.environment].netns(node)
    return outside if named == ENVIRONMENTS["netns"].netns(outside) else node
