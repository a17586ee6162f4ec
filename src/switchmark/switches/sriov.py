"""A NIC forwards between its virtual functions itself, by their MACs: SR-IOV.

The NIC is the one that the host file calls `sriov` ([hosts.NAME.nics]), else the only one of the
host that nobody uses. See Documentation/PCI/pci-iov-howto.rst of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from switchmark.errors import Unavailable, UsageError
from switchmark.machine.host import Host
from switchmark.machine.host_file import host_entries
from switchmark.machine.nics import unused_link
from switchmark.model.plan import Check, Plan, Run, Wait, Write
from switchmark.model.topology import Endpoint, PortKind, Semantics, Wiring, mac_address
from switchmark.model.version import Version
from switchmark.switches.base import NO_COUNTERS, Switch
from switchmark.switches.links import kernel_release, offloads_off

_NAME = "sriov"
_TOTAL = "/sys/class/net/*/device/sriov_totalvfs"
_UP = b"0x1003\n"  # IFF_UP, IFF_BROADCAST, IFF_MULTICAST
_MODE = re.compile(r"(\S+), (\d+) VFs")


class Sriov(Switch):
    """Each function has a virtual function, whose interface is moved into its node. Its mode is the
    NIC, and how many virtual functions that has."""

    name = _NAME
    semantics = (Semantics.STATIC,)
    port_kinds = (PortKind.VF,)
    counters = NO_COUNTERS

    def probe(self, host: Host) -> Version:
        """Return the kernel's release, and the NIC. Unavailable where none has virtual functions,
        or somebody uses those that have."""
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
                hint="a NIC that has them, turned on in the firmware; or a VM of the host "
                'file whose NIC has model = "igb", by QEMU 8.0 or newer',
            )
        refusals = []
        for name, total in sorted(totals.items()):
            try:
                unused_link(host, name)
            except UsageError as error:
                refusals.append(error.message)
                continue
            if host.read(f"{_device(name)}/sriov_numvfs").strip() == b"0":
                return Version(kernel_release(host), f"{name}, {total} VFs")
            refusals.append(f"somebody uses the virtual functions of {name}")
        raise Unavailable(
            "\n  ".join(("no NIC with virtual functions is free", *refusals)),
            hint=f'[hosts.{host.name}.nics] sriov = {{name = "..."}} in the host file',
        )

    def accepts(self, wiring: Wiring) -> str | None:
        if any(port.physical for port in wiring.ports):
            return (
                "sriov joins functions; at the other end of its wire is whatever the NIC is cabled "
                "to\n\nhint: --scenario v2v"
            )
        known = _MODE.fullmatch(wiring.mode or "")
        if known and len(wiring.ports) > int(known[2]):
            pairs = int(known[2]) // 2
            return (
                f"the NIC {known[1]} has {known[2]} virtual functions, and {len(wiring.ports)} are "
                f"asked for\n\nhint: --pairs {pairs}"
            )
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        return {
            port.id: Endpoint(
                kind=PortKind.VF,
                mac=mac_address(port.index),
                ifname=wiring.name(f"e{port.index}"),
                staged=wiring.name(f"e{port.index}"),
                mtu=wiring.mtu,
            )
            for port in wiring.ports
        }

    def start(self, wiring: Wiring) -> Plan:
        known = _MODE.fullmatch(wiring.mode or "")
        nic = known[1] if known else "NIC"
        device, count = _device(nic), len(wiring.ports)
        steps: Plan = (
            Write(
                f"{nic} up, as its virtual functions need it", f"/sys/class/net/{nic}/flags", _UP
            ),
            Write(
                f"frames of {wiring.mtu} bytes pass {nic}",
                f"/sys/class/net/{nic}/mtu",
                b"%d\n" % wiring.mtu,
            ),
            Write(
                f"{count} virtual functions of {nic}",
                f"{device}/sriov_numvfs",
                b"%d\n" % count,
            ),
        )
        for number, port in enumerate(wiring.ports):
            name, listed = wiring.name(f"e{port.index}"), f"{device}/virtfn{number}/net"
            of_kernel = f"{wiring.prefix}-vf{port.index}"
            steps += (
                Wait(
                    f"virtual function {number} has its interface",
                    Check(("ls", listed), pattern=r"\S"),
                ),
                Run("the kernel's name for it", ("ls", listed), save=of_kernel),
                Run(
                    f"it is {name}",
                    (
                        *("ip", "link", "set", f"${{{of_kernel}}}", "name", name),
                        *("address", mac_address(port.index), "mtu", str(wiring.mtu)),
                    ),
                ),
            )
            if wiring.isolated:
                steps += (
                    Run(
                        f"{name} goes to the switch's node",
                        ("ip", "link", "set", name, "netns", wiring.at.name),
                    ),
                )
            steps += (offloads_off(wiring, name),)
        return steps

    def settled(self, wiring: Wiring) -> Plan:
        return tuple(
            Wait(
                f"{name} has its link",
                Check(
                    ("ip", "-o", "link", "show", "dev", name),
                    at=wiring.nodes[port.part],
                    pattern="[<,]LOWER_UP[,>]",
                ),
            )
            for port in wiring.ports
            for name in (wiring.name(f"e{port.index}"),)
        )


def _device(nic: str) -> str:
    return f"/sys/class/net/{nic}/device"


SWITCH = Sriov()
