"""NICs by PCI address: plans that move them from the kernel's driver to a driver for user space,
and back.

Probes only read; every change to a device is a step of a plan. See
Documentation/ABI/testing/sysfs-bus-pci and Documentation/driver-api/vfio.rst of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.model.plan import HOST, Check, Node, Plan, Run, Step, Wait
from switchmark.runs.nics import unused_link

VFIO, UIO = "vfio-pci", "uio_pci_generic"
DRIVERS = (VFIO, UIO)
"""The kernel drivers that leave a device to a program; the first is the default."""

_BUS = "/sys/bus/pci"
_NO_IOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
_AS_BEFORE = (
    '[ -e "$1" ] || exit 0; for n in $(seq 50) last; do for p in "$1"/net/* "$1"/*/net/*; do '
    '[ -e "$p" ] || continue; name="${p##*/}"; '
    '[ "$name" = "$2" ] || [ "$n" = last ] || continue; '
    '[ "$name" = "$2" ] || ip link set "$name" name "$2" 2>/dev/null || continue; '
    '[ -z "$3" ] || ip link set "$2" up 2>/dev/null || continue; exit 0; done; sleep 0.1; done; '
    'echo "no interface of $1 is $2 again" >&2; exit 1'
)
"""A script that gives an interface its name again, and sets it up if a third argument says so, once
its driver has bound. The kernel names the interface first, and udev renames it some milliseconds
later. The script renames an interface that udev does not."""

_NETWORK, _BRIDGE = "0x02", "0x06"  # PCI device classes
_IPC_LOCK = 1 << 14
_UNPROTECTED = (
    "boot with intel_iommu=on (that of AMD is on by itself); or, if the NIC may write to all "
    "memory, modprobe vfio enable_unsafe_noiommu_mode=1 where the kernel has it, or "
    f"--driver {UIO}"
)


@dataclass(frozen=True, slots=True)
class Device:
    """A NIC as found."""

    address: str
    """The PCI address."""
    kind: str
    """The ids of vendor and device."""
    driver: str
    """The name of its driver; empty if it has none."""
    interfaces: tuple[str, ...] = ()
    """The names of its interfaces."""
    group: str = ""
    """The IOMMU group; empty without an IOMMU."""

    def __str__(self) -> str:
        interfaces = f"{', '.join(self.interfaces)} of " if self.interfaces else ""
        return f"{self.address} [{self.kind}], {interfaces}{self.driver or 'no driver'}"


def find_device(host: Host, address: str) -> Device:
    """Return the NIC with that address. Raise UsageError if there is none, or the device is not a
    NIC."""
    path = _path(address)
    if not host.exists(path):
        raise UsageError(f"there is no PCI device {address}", hint="lspci -D")
    kind = _word(host, f"{path}/class")
    if not kind.startswith(_NETWORK):
        raise UsageError(
            f"the PCI device {address} is no NIC: its class is {kind}", hint="lspci -D"
        )
    vendor, product = (_word(host, f"{path}/{name}")[2:] for name in ("vendor", "device"))
    # The interface of a virtio device is one level deeper.
    listing = host.run(("find", f"{path}/", "-maxdepth", "3", "-path", "*/net/*"))
    paths = [line.split("/") for line in listing.stdout.decode(errors="replace").splitlines()]
    return Device(
        address,
        f"{vendor}:{product}",
        driver=_link(host, f"{path}/driver"),
        interfaces=tuple(sorted(parts[-1] for parts in paths if parts[-2] == "net")),
        group=_link(host, f"{path}/iommu_group"),
    )


def hand_over(
    host: Host,
    devices: Sequence[Device],
    driver: str,
    memory: Literal["hugepages", "no-huge"],
) -> Plan:
    """Return the steps that bind all devices to `driver`, a member of `DRIVERS`; their undos return
    each device to its old driver.

    Raise UsageError if a device is in use. Raise Unavailable if this host cannot leave it to a
    program: no module, no IOMMU, a group with devices that the kernel uses, or a limit on locked
    memory.
    """
    up = {device.address: _unused(host, device, driver) for device in devices}
    if driver == VFIO:
        unprotected = _refuse_without_iommu(host, devices)
    else:
        unprotected = True
    if unprotected and memory == "no-huge":
        raise Unavailable(
            f"without an IOMMU, {devices[0].address} needs memory whose physical addresses are "
            "known: hugepages",
            hint="--memory hugepages",
        )
    steps: list[Step] = []
    if not host.exists(f"{_BUS}/drivers/{driver}"):
        if host.run(("modprobe", "--dry-run", "--quiet", driver)).status:
            raise Unavailable(
                f"the kernel of {host.name} has no module {driver}",
                hint="a kernel that has it, such as that of Debian's linux-image-amd64",
            )
        steps.append(Run(f"the driver {driver}; it stays", ("modprobe", driver)))
    others = [device for device in devices if device.driver != driver]
    steps += _remember(others, up)
    for device in others:
        steps += _give(device, driver)
    return tuple(steps)


def bind(address: str, driver: str, node: Node = HOST, *, has_driver: bool = True) -> Plan:
    """Return the steps that bind a device to another driver, without undos; `has_driver` says
    whether a driver is bound to it now."""
    override, unbind = f"{_path(address)}/driver_override", f"{_path(address)}/driver/unbind"
    leave = _write(f"the kernel's driver leaves {address}", unbind, address, node=node)
    return (
        _write(f"no other driver takes {address}", override, driver, node=node),
        *((leave,) if has_driver else ()),
        _write(f"{driver} takes {address}", f"{_BUS}/drivers_probe", address, node=node),
        _bound(address, driver, node),
    )


def _remember(devices: Sequence[Device], up: Mapping[str, Sequence[str]]) -> Plan:
    """Return steps that do nothing, but whose undos run last and bind the kernel's drivers again.
    The device with the first interface comes first, because the kernel numbers interfaces in that
    order. Interfaces get their names again, and those in `up`, by address, are set up."""
    ways = [
        Run(
            f"{name} is {'up' if is_up else 'down'}, and will be again",
            ("true",),
            undo=("sh", "-c", _AS_BEFORE, "sh", _path(device.address), name, "up" * is_up),
        )
        for device in devices
        for name in device.interfaces
        for is_up in (name in up[device.address],)
    ]
    taken = sorted(filter(lambda device: device.driver, devices), key=_by_interface, reverse=True)
    return (
        *ways,
        *(
            Run(
                f"{device}: it will be again",
                ("true",),
                undo=("tee", f"{_BUS}/drivers_probe"),
                undo_stdin=device.address.encode(),
            )
            for device in taken
        ),
    )


def _by_interface(device: Device) -> list[tuple[str, int]]:
    """Return a sort key that puts eth2 before eth10."""
    parts = re.findall(r"(\D+)(\d*)", " ".join(device.interfaces))
    return [(word, int(number or 0)) for word, number in parts]


def _give(device: Device, driver: str) -> Plan:
    address, path = device.address, _path(device.address)
    override, unbind = f"{path}/driver_override", f"{_BUS}/drivers/{driver}/unbind"
    leave = _write(f"{device.driver} leaves {address}", f"{path}/driver/unbind", address)
    return (
        _write(f"no other driver takes {address}", override, driver, undo=(override, "\n")),
        *((leave,) if device.driver else ()),
        _write(
            f"{driver} takes {address}", f"{_BUS}/drivers_probe", address, undo=(unbind, address)
        ),
        _bound(address, driver),
    )


def _write(
    why: str, path: str, text: str, *, undo: tuple[str, str] | None = None, node: Node = HOST
) -> Run:
    """Return a step that writes to a file of sysfs that cannot be read back; `undo` is another file
    and its content."""
    return Run(
        why,
        ("tee", path),
        at=node,
        stdin=text.encode(),
        undo=("tee", undo[0]) if undo else None,
        undo_stdin=undo[1].encode() if undo else None,
    )


def _bound(address: str, driver: str, node: Node = HOST) -> Wait:
    return Wait(
        f"{address} is left to programs",
        Check(("readlink", f"{_path(address)}/driver"), at=node, pattern=f"/{re.escape(driver)}$"),
    )


def _unused(host: Host, device: Device, driver: str) -> list[str]:
    """Return the interfaces of a NIC that are up. Raise UsageError if it is in use."""
    up = []
    for name in device.interfaces:
        try:
            if "UP" in unused_link(host, name).get("flags", []):
                up.append(name)
        except UsageError as error:
            raise UsageError(f"{device.address}: {error.message}", hint=error.hint) from error
    if device.driver in DRIVERS and device.driver != driver:
        # The undo would bind the kernel's driver, not this one.
        raise UsageError(
            f"the NIC {device.address} is left to programs by {device.driver}, not by {driver}",
            hint=f"--driver {device.driver}",
        )
    if device.driver and device.driver not in DRIVERS and not device.interfaces:
        raise UsageError(
            f"the NIC {device.address} is in use: driver {device.driver} has it, and its interface "
            "is in another network namespace",
            hint=f"bring it back, or bind {VFIO} to it yourself",
        )
    return up


def _refuse_without_iommu(host: Host, devices: Sequence[Device]) -> bool:
    """Return whether the devices work without an IOMMU; raise Unavailable if the host does not
    allow that."""
    if all(device.group for device in devices):
        for device in devices:
            _refuse_shared(host, device, {device.address for device in devices})
        _refuse_locked(host)
        return False
    alone = next(device for device in devices if not device.group)
    if not (host.exists(_NO_IOMMU) and _word(host, _NO_IOMMU) == "Y"):
        raise Unavailable(
            f"the NIC {alone.address} has no IOMMU: {VFIO} does not leave it to a program",
            hint=_UNPROTECTED,
        )
    return True


def _refuse_shared(host: Host, device: Device, own: set[str]) -> None:
    listed = host.run(("ls", f"{_path(device.address)}/iommu_group/devices"))
    others = []
    for other in set(listed.stdout.decode(errors="replace").split()) - own:
        driver = _link(host, f"{_path(other)}/driver")
        bridge = _word(host, f"{_path(other)}/class").startswith(_BRIDGE)
        if driver and driver != VFIO and not bridge:
            others.append(f"{other} ({driver})")
    if others:
        raise Unavailable(
            f"the NIC {device.address} shares the IOMMU's group {device.group} with devices that "
            f"the kernel uses: {', '.join(sorted(others))}",
            hint="use both NICs of such a group, unbind the others, or another slot",
        )


def _refuse_locked(host: Host) -> None:
    """Raise Unavailable if a program may not lock all of its memory for the device; the kernel
    limits everybody except root."""
    status, limits = (host.read(f"/proc/self/{name}").decode() for name in ("status", "limits"))
    capable = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    limit = re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE)
    if (
        not (capable and int(capable[1], 16) & _IPC_LOCK)
        and limit is not None
        and limit[1] != "unlimited"
    ):
        raise Unavailable(
            f"{VFIO} locks all memory of a program, and the limit is {limit[1]} bytes",
            hint="ulimit -l unlimited",
        )


def _path(address: str) -> str:
    return f"{_BUS}/devices/{address}"


def _word(host: Host, path: str) -> str:
    return host.read(path).decode(errors="replace").strip()


def _link(host: Host, path: str) -> str:
    """Return the name of a sysfs link's target; empty if there is no link."""
    completed = host.run(("readlink", path))
    return (
        ""
        if completed.status
        else completed.stdout.decode(errors="replace").strip().rpartition("/")[2]
    )
