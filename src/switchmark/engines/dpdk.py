"""DPDK ports in user space: NICs that bypass the kernel, or kernel interfaces through a DPDK
driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.engines.base import KERNEL_PORTS, Engine
from switchmark.engines.mbufs import HEADROOM_BYTES, pool_megabytes
from switchmark.errors import UsageError
from switchmark.model.plan import Node, Plan, Run
from switchmark.model.topology import Endpoint, PortKind, Wiring, guest_devices
from switchmark.runs import pci

_BASE_MB = 32
"""EAL, and driver memory other than frames: 2 MB, measured with DPDK 22.11, plus a margin for
neighbours that exceed their reservation."""

_ROOM_BYTES = 2048
_AROUND_BYTES = 14 + 64  # an Ethernet header, and af_packet's space before a frame
_BURST, _CACHE = 64, 256

_PAGE_MB = 2  # a hugepage in a virtual machine
_DESCRIPTORS = 1024
_VHOST, _VIRTIO = "vhost", "virtio-user"
_MEMIF, _MEMIF_ZERO_COPY = "memif", "memif-zero-copy"
_AF_PACKET, _AF_XDP = "af_packet", "af_xdp"
_VIRTIO_QUEUES = 8  # VIRTIO_MAX_VIRTQUEUE_PAIRS of DPDK

_OF_AF_PACKET = frozenset({"NET_RAW", "NET_ADMIN"})
"""af_packet sets the MTU and promiscuous mode of the interface."""

_OF_AF_XDP = _OF_AF_PACKET | {"SYS_ADMIN", "IPC_LOCK"}
"""af_xdp looks up its program's map by number, which the capability BPF does not cover."""


@dataclass(frozen=True, slots=True)
class Dpdk(Engine):
    """The engine describes every port to DPDK as a device. `driver` auto means memif, af_packet, or
    for vhost-user the side that the endpoint names, virtio-user or vhost. With memif-zero-copy, a
    client shares its memory with the server and does not copy frames. A driver of `pci.DRIVERS` is
    the kernel driver that hands NICs to user space; it does not affect other ports. In a virtual
    machine the guest's NICs have no IOMMU: memory is hugepages, and the driver is `pci.UIO`."""

    def prepare(self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint]) -> Plan:
        guest = guest_devices(endpoints)
        megabytes = self._megabytes(wiring, len(endpoints), guest=bool(guest))
        if guest:
            count = f"vm.nr_hugepages={-(-megabytes // _PAGE_MB)}"
            steps: Plan = (
                Run(f"hugepages in {node.name}", ("sysctl", "-q", "-w", count), at=node),
            )
            for address in guest:
                steps += pci.bind(address, pci.UIO, node=node)
            return steps
        return wiring.memory.reserve(f"memory for the frames of {node.name}", megabytes)

    def vm_megabytes(self, wiring: Wiring, endpoints: Sequence[Endpoint]) -> int:
        guest = guest_devices(endpoints)
        return self._megabytes(wiring, len(guest), guest=True) if guest else 0

    def port_options(
        self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint], index: int, driver: str
    ) -> Mapping[str, Any]:
        guest = bool(guest_devices(endpoints))
        return {
            "device": _device(wiring, endpoints[index], index, driver),
            "queues": wiring.queues,
            "descriptors": wiring.descriptors or _DESCRIPTORS,
            "offload": wiring.functions.offload,
            "stamps": wiring.functions.stamps,
            "memory": "hugepages" if guest else wiring.memory.kind,
            "megabytes": self._megabytes(wiring, len(endpoints), guest=guest),
            "prefix": node.name,
            "directory": wiring.ports_dir,
        }

    def granted(self, kinds: Collection[PortKind], driver: str) -> frozenset[str]:
        """Return the engine's capabilities; for kernel interfaces also those for sockets and XDP
        programs."""
        capabilities = self.capabilities
        if not KERNEL_PORTS.isdisjoint(kinds):
            capabilities |= _OF_AF_XDP if driver == _AF_XDP else _OF_AF_PACKET
        return capabilities

    def _megabytes(self, wiring: Wiring, devices: int, *, guest: bool) -> int:
        """Return the memory of a process: a pool per device, sized as in traffic/engines/dpdk.c."""
        rings = 4 * wiring.queues * (wiring.descriptors or _DESCRIPTORS)
        held = 4 * max(wiring.functions.burst, _BURST) + 4 * _CACHE  # by each core
        mbufs = rings + held * wiring.functions.cores
        memory = "hugepages" if guest else wiring.memory.kind
        pool = pool_megabytes(mbufs, HEADROOM_BYTES + _room(wiring), memory)
        return _BASE_MB + devices * pool


def _room(wiring: Wiring) -> int:
    """Return the size of the frame area in an mbuf, in bytes."""
    return max(_ROOM_BYTES, 1 << (wiring.mtu + _AROUND_BYTES - 1).bit_length())


def _device(wiring: Wiring, endpoint: Endpoint, index: int, driver: str) -> str:
    """Return the device arguments for EAL's --vdev, or a PCI address."""
    if endpoint.device:
        return endpoint.device
    if endpoint.guest_device:
        if driver == pci.VFIO:
            raise UsageError(
                f"a virtual machine has no IOMMU, which driver {driver} needs",
                hint=f"--driver {pci.UIO}",
            )
        return endpoint.guest_device
    match endpoint.kind:
        case PortKind.VHOST_USER:
            return _vhost_user(wiring, endpoint, index, driver)
        case PortKind.MEMIF:
            _check(driver, (_MEMIF, _MEMIF_ZERO_COPY), endpoint)
            arguments = f"role={'server' if endpoint.server else 'client'},id=0"
            arguments += f",socket={endpoint.path},socket-abstract=no,mac={endpoint.mac}"
            if wiring.mtu > 1500 and not endpoint.server:
                # memif loses or duplicates frames that span buffers if a ring is full.
                arguments += f",bsize={_room(wiring)}"
            if driver == _MEMIF_ZERO_COPY and not endpoint.server:
                arguments += ",zero-copy=yes"
            return f"net_memif{index},{arguments}"
        case _:
            _check(driver, (_AF_PACKET, _AF_XDP), endpoint)
            if driver == _AF_XDP:
                return f"net_af_xdp{index},iface={endpoint.ifname}"
            slot = 2048 if wiring.mtu <= 1500 else 16384
            sizes = f"blocksz={max(4096, slot)},framesz={slot}"
            return f"net_af_packet{index},iface={endpoint.ifname},{sizes}"


def _vhost_user(wiring: Wiring, endpoint: Endpoint, index: int, driver: str) -> str:
    _check(driver, (_VHOST if endpoint.backend else _VIRTIO,), endpoint)
    if endpoint.backend:
        client = 0 if endpoint.server else 1
        return f"net_vhost{index},iface={endpoint.path},queues={wiring.queues},client={client}"
    if wiring.queues > _VIRTIO_QUEUES:
        raise UsageError(
            f"DPDK's virtio-user has up to {_VIRTIO_QUEUES} pairs of queues, not {wiring.queues}",
            hint=f"at most --queues {_VIRTIO_QUEUES} and --function-cores {_VIRTIO_QUEUES}",
            axes=("queues", "function_cores", "engine", "port"),
        )
    several = f",queues={wiring.queues},cq=1" if wiring.queues > 1 else ""
    return (
        f"net_virtio_user{index},mac={endpoint.mac},path={endpoint.path}{several}"
        f",queue_size={wiring.descriptors or _DESCRIPTORS},server={int(endpoint.server)}"
    )


def _check(driver: str, usable: Sequence[str], endpoint: Endpoint) -> None:
    if driver not in ("auto", *usable, *pci.DRIVERS):
        raise UsageError(
            f"driver {driver} cannot open a port of kind {endpoint.kind}",
            hint=f"--driver {','.join(('auto', *usable))}",
        )


ENGINE = Dpdk(
    name="dpdk",
    summary="DPDK: virtio-user, vhost, memif, NICs by PCI address, af_packet, af_xdp",
    port_kinds=KERNEL_PORTS
    | {PortKind.VHOST_USER, PortKind.MEMIF, PortKind.NIC_PCI, PortKind.VF_PCI},
    privilege="root",
    drivers=(_VIRTIO, _VHOST, _MEMIF, _MEMIF_ZERO_COPY, _AF_PACKET, _AF_XDP, *pci.DRIVERS),
    resources=frozenset({"queues", "descriptors", "offload", "stamps", "function_cores"}),
    emulated=frozenset({PortKind.NIC_PCI, PortKind.VF_PCI}),
    stamped=KERNEL_PORTS | {PortKind.NIC_PCI, PortKind.VF_PCI},
    queue_a_core=True,
    user_memory=True,
    # With a NUMA library EAL sets a memory policy; the seccomp filters of docker and podman allow
    # that only with SYS_NICE.
    capabilities=frozenset({"SYS_NICE"}),
    # The modules of a release are for DPDK of Debian 12 and 13.
    loads_with="apt-get install librte-meta-all, or pip install the source distribution where "
    "libdpdk-dev and a compiler are",
)
