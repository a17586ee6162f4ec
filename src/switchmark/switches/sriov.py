"""SR-IOV: a NIC switches frames by MAC, between its virtual functions and its cable.

The NIC is the one named `sriov` in the host file ([hosts.NAME.nics]), else the only unused NIC of
the host. See Documentation/PCI/pci-iov-howto.rst of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import host_entries
from switchmark.model.addresses import mac_address
from switchmark.model.plan import Check, Plan, Run, Wait, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.observe.facts import kernel_release
from switchmark.runs.nics import unused_link
from switchmark.runs.pci import VFIO, bind
from switchmark.switches.base import NO_COUNTERS, Switch
from switchmark.switches.links import offloads_off

_NAME = "sriov"
_TOTAL = "/sys/class/net/*/device/sriov_totalvfs"
_UP = b"0x1003\n"  # IFF_UP, IFF_BROADCAST, IFF_MULTICAST
_MODE = re.compile(r"(\S+), (\d+) VFs(?:, from (\S+) by (\d+))?")
_ADDRESS = re.compile(r"([0-9a-f]{4,}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")


class Sriov(Switch):
    """Each network function gets a virtual function of the NIC. Its interface moves into the
    function's node; for port kind vf-pci, vfio-pci hands the device to the program. The mode lists
    the NIC, its number of virtual functions and, behind an IOMMU, their future PCI addresses."""

    name = _NAME
    semantics = (Semantics.STATIC,)
    port_kinds = (PortKind.VF, PortKind.VF_PCI)
    counters = NO_COUNTERS

    @property
    def takes_uplink(self) -> bool:
        return True  # the NIC is the switch: its cable leads to the NIC of the other host

    def shares_cable(self, semantics: Semantics) -> bool:
        return True

    def is_alike(self, one: Version, other: Version) -> bool:
        return True  # the modes name the NICs, which differ from host to host

    def probe(self, host: Host) -> Version:
        """Return the kernel's release, and the NIC. Unavailable if no NIC has virtual functions, or
        if they are all in use."""
        totals = {
            path.split("/")[4]: int(content)
            for path, content in host.read_all(_TOTAL).items()
            if content.strip() not in (b"", b"0")
        }
        entry = host_entries().get(host.name)
        if entry is not None and _NAME in entry.nics:
            name = entry.nics[_NAME].name
            if name not in totals:
                raise Unavailable(f"the NIC {name} of {host.name} has no virtual functions")
            totals = {name: totals[name]}
        if not totals:
            raise Unavailable(
                f"no NIC of {host.name} has virtual functions (SR-IOV)",
                hint="use a NIC with SR-IOV, enabled in the firmware, or a VM of the host "
                'file whose NIC has model = "igb" (QEMU 8.0 or newer)',
            )
        refusals = []
        for name, total in sorted(totals.items()):
            try:
                unused_link(host, name)
            except UsageError as error:
                refusals.append(error.message)
                continue
            if host.read(f"{_device(name)}/sriov_numvfs").strip() == b"0":
                return Version(kernel_release(host), f"{name}, {total} VFs{_addresses(host, name)}")
            refusals.append(f"the virtual functions of {name} are in use")
        raise Unavailable(
            "\n  ".join(("no NIC with virtual functions is free", *refusals)),
            hint=f'[hosts.{host.name}.nics] sriov = {{name = "..."}} in the host file',
        )

    def accepts(self, wiring: Wiring) -> str | None:
        if any(port.physical and not port.uplink for port in wiring.ports):
            return (
                "sriov connects functions only: its physical port leads to whatever the NIC "
                "is cabled to\n\nhint: --scenario v2v"
            )
        mode = _MODE.fullmatch(wiring.version.mode or "")
        uplink = next((port for port in wiring.ports if port.uplink), None)
        if mode and uplink and uplink.nic != mode[1]:
            return (
                f"the NIC {mode[1]} of {wiring.node.host} switches the frames of its virtual "
                "functions, and its cable does not lead to the other host\n\nhint: "
                f"[hosts.{wiring.node.host}.nics] sriov = {{name = '{mode[1]}', cable = '...'}} "
                "in the host file, with the same cable at the NIC of the other host"
            )
        count = len(_functions(wiring))
        if mode and wiring.kind is PortKind.VF_PCI and not mode[3]:
            return (
                f"the NIC {mode[1]} has no IOMMU: {VFIO} cannot give its virtual functions to "
                "a program\n\nhint: boot with intel_iommu=on; for a VM of the host file, set "
                "iommu = true"
            )
        if mode and count > int(mode[2]):
            pairs = int(mode[2]) // (1 if uplink else 2)
            return (
                f"the NIC {mode[1]} has {mode[2]} virtual functions; the test needs "
                f"{count}\n\nhint: --pairs {pairs}"
            )
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        if wiring.kind is PortKind.VF_PCI:
            return {
                port.id: Endpoint(
                    kind=PortKind.VF_PCI,
                    mac=mac_address(port.index),
                    device=_address(wiring, number),
                    mtu=wiring.mtu,
                )
                for number, port in enumerate(_functions(wiring))
            }
        return {
            port.id: Endpoint(
                kind=PortKind.VF,
                mac=mac_address(port.index),
                ifname=wiring.name(f"e{port.index}"),
                staged=wiring.name(f"e{port.index}"),
                mtu=wiring.mtu,
            )
            for port in _functions(wiring)
        }

    def start(self, wiring: Wiring) -> Plan:
        mode = _MODE.fullmatch(wiring.version.mode or "")
        nic = mode[1] if mode else "NIC"
        device, count = _device(nic), len(_functions(wiring))
        past_kernel = wiring.kind is PortKind.VF_PCI
        steps: Plan = (
            Write(
                f"{nic} up, which its virtual functions need", f"/sys/class/net/{nic}/flags", _UP
            ),
            Write(
                f"frames of {wiring.mtu} bytes pass {nic}",
                f"/sys/class/net/{nic}/mtu",
                b"%d\n" % wiring.mtu,
            ),
            *(_without_drivers(nic) if past_kernel else ()),
            Write(
                f"{count} virtual functions of {nic}",
                f"{device}/sriov_numvfs",
                b"%d\n" % count,
            ),
        )
        if past_kernel:
            return steps + _left_to_programs(wiring, nic)
        for number, port in enumerate(_functions(wiring)):
            name, listed = wiring.name(f"e{port.index}"), f"{device}/virtfn{number}/net"
            of_kernel = f"{wiring.prefix}-vf{port.index}"
            steps += (
                Wait(
                    f"virtual function {number} has its interface",
                    Check(("ls", listed), pattern=r"\S"),
                ),
                Run("the kernel's name for it", ("ls", listed), save=of_kernel),
                Run(
                    f"its name is {name}",
                    (
                        *("ip", "link", "set", f"${{{of_kernel}}}", "name", name),
                        *("address", mac_address(port.index), "mtu", str(wiring.mtu)),
                    ),
                ),
            )
            if wiring.node.isolated:
                steps += (
                    Run(
                        f"move {name} to the switch's node",
                        ("ip", "link", "set", name, "netns", wiring.node.name),
                    ),
                )
            steps += (offloads_off(wiring, name),)
        return steps

    def settled(self, wiring: Wiring) -> Plan:
        if wiring.kind is PortKind.VF_PCI:
            return ()
        return tuple(
            Wait(
                f"{name} has its link",
                Check(
                    ("ip", "-o", "link", "show", "dev", name),
                    at=port.node,
                    pattern="[<,]LOWER_UP[,>]",
                ),
            )
            for port in _functions(wiring)
            for name in (wiring.name(f"e{port.index}"),)
        )


def _functions(wiring: Wiring) -> list[Port]:
    """Return the ports of functions: each is a virtual function of the NIC."""
    return [port for port in wiring.ports if not port.uplink]


def _without_drivers(nic: str) -> Plan:
    return (
        Run(f"the driver {VFIO}; it stays loaded", ("modprobe", VFIO)),
        Write(
            f"the kernel's driver takes no virtual function of {nic}",
            f"{_device(nic)}/sriov_drivers_autoprobe",
            b"0\n",
        ),
    )


def _left_to_programs(wiring: Wiring, nic: str) -> Plan:
    """Return the steps that hand each virtual function to a program, at the address that the NIC
    announced. The settings disappear with the virtual function."""
    steps: Plan = ()
    for number, port in enumerate(_functions(wiring)):
        address = _address(wiring, number)
        mac = mac_address(port.index)
        steps += (
            Wait(
                f"virtual function {number} is {address}",
                Check(
                    ("readlink", f"{_device(nic)}/virtfn{number}"), pattern=f"/{re.escape(address)}"
                ),
            ),
            Run(f"its MAC is {mac}", ("ip", "link", "set", nic, "vf", str(number), "mac", mac)),
            *bind(address, VFIO, has_driver=False),
        )
    return steps


def _addresses(host: Host, nic: str) -> str:
    """Return where the virtual functions of a NIC will appear: the address of the first, and the
    stride. Empty without an IOMMU. See SR-IOV 1.1, 3.3.9 and 3.3.10."""
    device = host.run(("readlink", "-f", _device(nic))).stdout.decode(errors="replace").strip()
    address = _ADDRESS.fullmatch(device.rpartition("/")[2])
    if address is None or not host.exists(f"{_device(nic)}/iommu_group"):
        return ""
    offset, stride = (
        int(host.read(f"{_device(nic)}/sriov_{name}")) for name in ("offset", "stride")
    )
    number = (int(address[2], 16) << 8 | int(address[3], 16) << 3 | int(address[4])) + offset
    return f", from {_written(address[1], number)} by {stride}"


def _address(wiring: Wiring, number: int) -> str:
    """Return the PCI address of a virtual function, or a placeholder if the NIC is unknown."""
    mode = _MODE.fullmatch(wiring.version.mode or "")
    if mode is None or mode[3] is None:
        return f"VF{number}"
    address = _ADDRESS.fullmatch(mode[3])
    assert address is not None
    first = int(address[2], 16) << 8 | int(address[3], 16) << 3 | int(address[4])
    return _written(address[1], first + number * int(mode[4]))


def _written(domain: str, number: int) -> str:
    """Return the text of an address, from its number for bus, device and function."""
    return f"{domain}:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}"


def _device(nic: str) -> str:
    return f"/sys/class/net/{nic}/device"


SWITCH = Sriov()
