"""Numbers and names of a DPDK program's ports: NICs by PCI address, then virtual devices in the
order of the topology. The module is independent of any single switch."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.model.addresses import mac_address
from switchmark.model.topology import Endpoint, Port, PortKind, Wiring

SOCKET_KINDS = (PortKind.VHOST_USER, PortKind.MEMIF)
PORT_KINDS = (*SOCKET_KINDS, PortKind.NIC_PCI)


def device_ids(wiring: Wiring) -> Mapping[str, int]:
    """Return DPDK's number of each port, by port id. NICs come first, ordered by address regardless
    of the order of the options, then virtual devices."""
    nics = sorted((port for port in wiring.ports if port.nic), key=_bus_order)
    order = [*nics, *(port for port in wiring.ports if not port.nic)]
    return {port.id: number for number, port in enumerate(order)}


def _bus_order(port: Port) -> tuple[int, str]:
    address = port.nic or ""
    return len(address), address


def functions_listen(wiring: Wiring) -> bool:
    """Return whether functions listen on the sockets of vhost-user ports and the switch
    connects."""
    return wiring.kind is PortKind.VHOST_USER and wiring.functions.listen


def socket_path(wiring: Wiring, port: Port) -> str:
    """Return the path of a port's socket."""
    return f"{wiring.ports_dir}/p{port.index}.sock"


def file_prefix(wiring: Wiring) -> str:
    """Return the EAL file prefix, which keeps the program's files apart."""
    return wiring.name("sw")


def eal_endpoints(wiring: Wiring, macs: Mapping[str, str]) -> Mapping[str, Endpoint]:
    """Return the function's end of each port: a socket, or the NIC at the other end of the cable.
    The switch listens on the socket, unless the axis `listen` makes functions listen. `macs` are
    the MACs of the functions, by port id."""
    return {
        port.id: Endpoint(
            kind=PortKind.NIC_PCI if port.nic else wiring.kind,
            mac=macs[port.id],
            path="" if port.nic else socket_path(wiring, port),
            server=functions_listen(wiring) and not port.nic,
            device=port.nic_peer or "",
            mtu=wiring.mtu,
        )
        for port in wiring.ports
    }


def port_mac(wiring: Wiring, port: Port) -> str:
    """Return the MAC of the switch's end of a port. The MAC of a vhost port is fixed by the driver
    (`VHOST`, then the port's id)."""
    if wiring.kind is PortKind.VHOST_USER:
        return f"56:48:4f:53:54:{device_ids(wiring)[port.id]:02x}"
    return mac_address(port.index, router=True)
