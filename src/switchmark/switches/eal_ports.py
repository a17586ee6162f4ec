"""This module numbers and names the ports of a DPDK program: NICs by PCI address, and virtual
devices in the order of the topology. It knows no switch."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.model.addresses import mac_address
from switchmark.model.topology import Endpoint, Port, PortKind, Wiring

SOCKET_KINDS = (PortKind.VHOST_USER, PortKind.MEMIF)
PORT_KINDS = (*SOCKET_KINDS, PortKind.NIC_PCI)


def device_ids(wiring: Wiring) -> Mapping[str, int]:
    """Return the number that DPDK gives each port, by port id. NICs come first, in the order of
    their addresses, whatever that of the options is; then virtual devices."""
    nics = sorted((port for port in wiring.ports if port.nic), key=_bus_order)
    order = [*nics, *(port for port in wiring.ports if not port.nic)]
    return {port.id: number for number, port in enumerate(order)}


def _bus_order(port: Port) -> tuple[int, str]:
    address = port.nic or ""
    return len(address), address


def functions_listen(wiring: Wiring) -> bool:
    """Say whether the switch connects to the sockets of vhost-user ports, at which functions
    listen."""
    return wiring.kind is PortKind.VHOST_USER and wiring.functions.listen


def socket_path(wiring: Wiring, port: Port) -> str:
    """Return the path of the socket of a port."""
    return f"{wiring.ports_dir}/p{port.index}.sock"


def file_prefix(wiring: Wiring) -> str:
    """Return the name by which EAL keeps the files of the program apart from others'."""
    return wiring.name("sw")


def eal_endpoints(wiring: Wiring, macs: Mapping[str, str]) -> Mapping[str, Endpoint]:
    """Return the function's end of each port: a socket, at which the switch listens unless it is
    told that functions do, or the NIC at the other end of the cable. `macs` are the functions', by
    port."""
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
    """Return the MAC of the switch's end of a port. That of a vhost port is the driver's own
    (`VHOST`, then the port's id) and cannot be set."""
    if wiring.kind is PortKind.VHOST_USER:
        return f"56:48:4f:53:54:{device_ids(wiring)[port.id]:02x}"
    return mac_address(port.index, router=True)
