"""The files of a vpp instance: its configuration, and the CLI script for its ports. The module is
independent of plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from switchmark.model.addresses import ip_address, mac_address
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.switches import links

BUFFERS = 16384
"""Buffers per NUMA node, without those that NICs hold."""

_PLUGINS = ("vhost", "memif", "af_packet", "dpdk")  # vhost was not yet a plugin in 19.08
_RING = 1024


def home(wiring: Wiring) -> str:
    """Return the folder of the instance."""
    return f"{wiring.switch_dir}/{wiring.prefix}-vpp"


def process(wiring: Wiring) -> str:
    """Return the name of the Spawn, which is also the prefix of vpp's shared memory."""
    return f"{wiring.prefix}-vpp"


def number(wiring: Wiring) -> str:
    """Return the placeholder for the PID."""
    return f"${{{process(wiring)}-pid}}"


def main_core(wiring: Wiring) -> int:
    """Return the start CPU of the main thread: no worker's CPU. A later step lets the thread use
    all CPUs except those of the workers."""
    return min(set(range(len(wiring.cores) + 1)) - set(wiring.cores))


def kind_of(wiring: Wiring, port: Port) -> PortKind:
    """Return the type of a port. An uplink to another host is a packet socket, unless the NIC has a
    PCI address."""
    if port.pci:
        return PortKind.NIC_PCI
    return PortKind.VETH if port.uplink else wiring.kind


def interface(wiring: Wiring, port: Port) -> str:
    """Return vpp's name of a port, which the configuration determines."""
    match kind_of(wiring, port):
        case PortKind.VHOST_USER:
            return f"VirtualEthernet0/0/{_vhost_number(wiring, port)}"
        case PortKind.MEMIF:
            return f"memif{port.index + 1}/0"
        case PortKind.NIC_PCI:
            return f"nic{port.index}"
        case _:
            return f"host-{links.switch_ifname(wiring, port)}"


def _vhost_number(wiring: Wiring, port: Port) -> int:
    """Return the number of a port among the vhost-user ports. vpp numbers new ports in order, and
    `renumber` to a port's current number makes it lose its name."""
    vhosts = [port for port in wiring.ports if kind_of(wiring, port) is PortKind.VHOST_USER]
    return vhosts.index(port)


def startup(wiring: Wiring) -> str:
    """Return the start-up configuration, which creates no ports except NICs."""
    folder, nics = home(wiring), [port for port in wiring.ports if port.pci]
    length = wiring.descriptors or _RING
    buffers = (wiring.tuning.buffers or BUFFERS) + 2 * len(nics) * wiring.queues * length
    page = "default-hugepage" if wiring.memory.huge else "default"
    ring = f"num-rx-desc {length} num-tx-desc {length}"
    queues = f"num-rx-queues {wiring.queues} num-tx-queues {wiring.queues}"
    devices = [f"dev {port.nic} {{ name nic{port.index} {queues} {ring} }}" for port in nics]
    cores = ",".join(map(str, sorted(wiring.cores)))
    workers = f"main-core {main_core(wiring)} corelist-workers {cores}" if cores else ""
    lines = (
        f"unix {{ nodaemon nosyslog nobanner runtime-dir {folder} cli-listen {folder}/cli.sock"
        f" pidfile {folder}/vpp.pid }}",
        f"api-segment {{ prefix {process(wiring)} }}",
        f"statseg {{ socket-name {folder}/stats.sock }}",
        f"buffers {{ buffers-per-numa {buffers} page-size {page} }}",
        f"cpu {{ {workers} }}" if workers else "",
        "plugins { plugin default { disable }"
        + "".join(f" plugin {name}_plugin.so {{ enable }}" for name in _PLUGINS)
        + " }",
        f"dpdk {{ {' '.join(devices)} }}" if nics else "",
    )
    return "".join(f"{line}\n" for line in lines if line)


def script(wiring: Wiring, ends: Mapping[str, Endpoint]) -> str:
    """Return the CLI script for the running program. It stops at the first line that fails; its
    last line brings up the last port."""
    lines = [line for port in wiring.ports for line in _create(wiring, port, ends[port.id])]
    lines += _rules(wiring)
    lines += [f"set interface state {interface(wiring, port)} up" for port in wiring.ports]
    return "".join(f"{line}\n" for line in lines)


def _create(wiring: Wiring, port: Port, end: Endpoint) -> Iterator[str]:
    kind, queues, mac = kind_of(wiring, port), wiring.queues, mac_address(port.index, router=True)
    if kind is PortKind.VHOST_USER:
        server = "" if end.server else "server "
        number = _vhost_number(wiring, port)
        yield f"create vhost-user socket {end.path} {server}hwaddr {mac} renumber {number}"
    elif kind is PortKind.MEMIF:
        number, role = port.index + 1, "slave" if wiring.given and not end.server else "master"
        yield f"create memif socket id {number} filename {end.path}"
        yield (
            f"create interface memif id 0 socket-id {number} {role} hw-addr {mac} rx-queues"
            f" {queues} tx-queues {queues} ring-size {wiring.descriptors or _RING}"
        )
    elif kind is not PortKind.NIC_PCI:
        # Ports have no offloads, and the kernel refuses to send frames that would use them from a
        # socket.
        suffix = " cksum-gso-disable"
        suffix += f" num-rx-queues {queues} num-tx-queues {queues}" if queues > 1 else ""
        name = links.switch_ifname(wiring, port)
        yield f"create host-interface name {name} hw-addr {mac}{suffix}"


def _rules(wiring: Wiring) -> Iterator[str]:
    names = {port.id: interface(wiring, port) for port in wiring.ports}
    match wiring.semantics:
        case Semantics.PATCH:
            for source, sinks in wiring.ways.items():
                for sink in sinks:
                    yield f"set interface l2 xconnect {names[source]} {names[sink]}"
        case Semantics.LEARNING:
            yield "create bridge-domain 1 learn 1 forward 1 uu-flood 1 flood 1 arp-term 0"
            for name in names.values():
                yield f"set interface l2 bridge {name} 1"
        case _:
            for port in wiring.ports:
                near, far = (ip_address(host, net=port.index) for host in (1, 2))
                yield f"set interface ip address {names[port.id]} {near}/24"
                mac = mac_address(port.index)
                yield f"set ip neighbor {names[port.id]} {far} {mac} static"
